"""Describe msPTI, Ascend's tracing interface, and find its library; the extension does the tracing."""

import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ms_profiler import cann, paths
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
    """Trace NPUs of Ascend by msPTI."""

    name: ClassVar[str] = "msPTI"
    source: ClassVar[Source] = Source.MSPTI
    activity: ClassVar[str] = "NPU"
    platform: ClassVar[str] = "CANN"
    traces: ClassVar[str] = "NPUs of Ascend"
    package: ClassVar[str] = f"install CANN's toolkit, 8.0 or newer, and {SET_UP}"
    clock: ClassVar[str] = "msPTI takes times from the wall clock, with an uncertainty of"

    def libraries(self) -> list[str]:
        """Return the possible paths of msPTI's library, in the order in which to try them."""
        return PLACES.libraries()

    def missing(self) -> str:
        """Return why Ascend's driver cannot be loaded, and the remedy; empty if it can."""
        return driver.missing(_candidates(DRIVER), f"install Ascend's driver and {SET_UP}")

    def devices(self) -> tuple[int, str]:
        """Return the number of NPUs, and the reason if there is none.

        This method loads CANN's runtime, as a job on an NPU does, but does not initialise it.
        """
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
        """Return the name of the other profiler that uses msPTI; with torch_npu, PyTorch's profiler uses msPTI."""
        if profiled and "torch_npu" in sys.modules:
            return "PyTorch's own profiler"
        return owner.UNKNOWN

    def kinds(self, recordings: "Sequence[Recording]") -> Kinds:
        """Return the kinds of NPU records to make: with memory if msPTI was preloaded or an option requests memory."""
        if preload.present(os.environ) or any(recording.options.profile_memory for recording in recordings):
            return Kinds.BASIC | Kinds.MEMORY
        return Kinds.BASIC

    def left_out(self, kinds: str) -> str:
        """Return why msPTI does not make some kinds of records, and the remedy."""
        remedy = "; start the job with `ms-profiler run`, which preloads it" if preload.MISSING in kinds else ""
        return f"msPTI refuses {kinds}{remedy}"

    def left_to(self, host: "Host") -> str:
        """Return why another profiler keeps running; empty if none does. Two profilers on an NPU would lose records."""
        return host.left_running

    def version(self, library: str, number: int) -> str:
        """Return the version of CANN from a file in a folder above the library, because msPTI reports no version."""
        return cann.version(library)


def _candidates(name: str) -> list[str]:
    """Return the places where msPTI looks for a library of CANN."""
    homes = filter(None, map(os.environ.get, cann.HOMES))
    return [*(path for home in homes if paths.exists(path := paths.join(home, "lib64", name))), name]
