"""Describe msPTI, Ascend's tracing interface, and find its library; the extension does the tracing."""

import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ms_profiler import cann
from ms_profiler.job.devices import driver, owner, preload, search
from ms_profiler.job.devices.interface import Interface
from ms_profiler.job.recorder.tracing import Kinds
from ms_profiler.store.device_format import Source

if TYPE_CHECKING:
    from ms_profiler.job.host import Host
    from ms_profiler.job.recording import Recording

DRIVER = "libascend_hal.so"
RUNTIME = "libascendcl.so"
PLACES = search.Places(
    variable="MS_PROFILER_LIBMSPTI",
    mapped=re.compile(r"/libmspti\.so$"),
    files="libmspti.so",
    names=("libmspti.so",),
    packages=(),
    homes=cann.HOMES,
    usual=cann.USUAL,
    installed=("lib64", "tools/mspti/lib64"),
)
SET_UP = "source CANN's set_env.sh"


class Mspti(Interface):
    """Trace NPUs of Ascend."""

    name: ClassVar[str] = "msPTI"
    source: ClassVar[Source] = Source.MSPTI
    activity: ClassVar[str] = "NPU"
    platform: ClassVar[str] = "CANN"
    traces: ClassVar[str] = "NPUs of Ascend"
    package: ClassVar[str] = f"install CANN's toolkit, 8.0 or newer, and {SET_UP}"
    clock: ClassVar[str] = "msPTI takes times from the wall clock, with an uncertainty of"

    def libraries(self) -> list[str]:
        """See `Interface.libraries`."""
        return PLACES.libraries()

    def missing(self) -> str:
        """See `Interface.missing`."""
        return driver.missing(_candidates(DRIVER), f"install Ascend's driver and {SET_UP}")

    def devices(self) -> tuple[int, str]:
        """See `Interface.devices`; this loads CANN's runtime, as a job on an NPU does, but does not initialise it."""
        import ctypes

        if without := driver.missing(_candidates(RUNTIME), SET_UP):
            return 0, without.replace("driver", "runtime", 1)
        library = driver.load(_candidates(DRIVER))
        count = ctypes.c_uint32()
        result = library.drvGetDevNum(ctypes.byref(count))
        if result:
            return 0, f"the driver answers {result}; see whether npu-smi info works"
        return count.value, "" if count.value else "the driver has no device; see ASCEND_RT_VISIBLE_DEVICES"

    def owner(self, profiled: bool) -> str:
        """See `Interface.owner`; torch_npu has a bridge from PyTorch's profiler to msPTI."""
        if profiled and "torch_npu" in sys.modules:
            return "PyTorch's own profiler"
        return owner.UNKNOWN

    def kinds(self, recordings: "Sequence[Recording]") -> Kinds:
        """See `Interface.kinds`; memory is recorded if the library is preloaded, even where no option requests it."""
        if preload.present(os.environ) or any(recording.options.profile_memory for recording in recordings):
            return Kinds.BASIC | Kinds.MEMORY
        return Kinds.BASIC

    def left_out(self, kinds: str) -> str:
        """See `Interface.left_out`."""
        remedy = "; start the job with `ms-profiler run`, which preloads it" if preload.MISSING in kinds else ""
        return f"msPTI refuses {kinds}{remedy}"

    def left_to(self, host: "Host") -> str:
        """See `Interface.left_to`; if two collectors run on an NPU, one of them loses its records."""
        return host.left_running

    def version(self, library: str, number: int) -> str:
        """See `Interface.version`; msPTI reports no version, so this reads a file in a folder above the library."""
        return cann.version(library)


def _candidates(name: str) -> list[str]:
    """Return the places where msPTI looks for a library of CANN."""
    homes = filter(None, map(os.environ.get, cann.HOMES))
    return [*(path for home in homes if os.path.exists(path := os.path.join(home, "lib64", name))), name]
