"""Describe the cffi part of `ms_profiler._native`; the declarations come from the header."""

from pathlib import Path

from cffi import FFI

HEADERS = (
    "recorder.h",
    "helper.h",
    "metrics.h",
    "blocks.h",
    "apart.h",
    "exit_wait.h",
    "signals.h",
    "devices/tracing.h",
)


def declarations(header: str) -> str:
    """Return the declarations in `header` that cffi gets."""
    text = (Path(__file__).parent / header).read_text(encoding="utf-8")
    return text.split("/* cffi:begin */")[1].split("/* cffi:end */")[0]


ffibuilder = FFI()
for name in HEADERS:
    ffibuilder.cdef(declarations(name))
ffibuilder.set_source(
    "ms_profiler._native",
    # module.c defines the module's own init function and calls this one
    "#define PyInit__native msp_cffi_init\n" + "".join(f'#include "{name}"\n' for name in HEADERS),
)
