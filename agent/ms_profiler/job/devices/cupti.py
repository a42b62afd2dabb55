"""Describe CUPTI, NVIDIA's tracing interface, and find its library; the extension does the tracing."""

import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ms_profiler.job.devices import driver, owner, search
from ms_profiler.job.devices.interface import Interface
from ms_profiler.job.recorder.tracing import Kinds
from ms_profiler.store.device_format import Source

if TYPE_CHECKING:
    from ms_profiler.job.host import Host
    from ms_profiler.job.recording import Recording

#: Environment variable with which Kineto, PyTorch's profiler, may begin to record at any moment. If it is set,
#: ms-profiler leaves CUPTI to Kineto.
DAEMON = "KINETO_USE_DAEMON"
DRIVER = "libcuda.so.1"
#: pattern of the path of a library that a tool loads into a process -> name of the tool
TOOLS = {
    r"/libToolsInjection\w*\.so": "Nsight Systems",
    r"/libcuda-injection\.so": "Nsight Compute",
    r"/libsanitizer-collection\.so": "Compute Sanitizer",
    r"/libdcgm\w*\.so": "DCGM",
    r"/libcudadebugger\.so": "cuda-gdb",
}
#: environment variable that holds the path of a tool's library; NVIDIA's driver loads this library
INJECTION = "CUDA_INJECTION64_PATH"
#: Where to look for CUPTI. `packages` has the folder of CUDA 13's package, then the folder of older versions.
PLACES = search.Places(
    variable="MS_PROFILER_LIBCUPTI",
    mapped=re.compile(r"/libcupti\.so(\.\d+)*$"),
    files="libcupti.so.*",
    names=("libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"),
    packages=("nvidia/cu[0-9]*/lib", "nvidia/cuda_cupti/lib"),
    homes=("CUDA_HOME", "CUDA_PATH"),
    usual=("/usr/local/cuda*",),
    installed=("extras/CUPTI/lib64", "lib64", "targets/*/lib", "lib"),
    runtime=re.compile(r"/libcudart\.so\.(\d+)[^/]*$"),
)


class Cupti(Interface):
    """Trace GPUs of NVIDIA by CUPTI."""

    name: ClassVar[str] = "CUPTI"
    source: ClassVar[Source] = Source.CUPTI
    activity: ClassVar[str] = "GPU"
    platform: ClassVar[str] = "CUDA"
    traces: ClassVar[str] = "GPUs of NVIDIA"
    package: ClassVar[str] = "pip install nvidia-cuda-cupti-cu12 (or nvidia-cuda-cupti for CUDA 13)"
    covers: ClassVar[tuple[str, ...]] = ("profiler_level",)
    clock: ClassVar[str] = "CUPTI refused our clock; the uncertainty of CUPTI's clock is"

    def libraries(self) -> list[str]:
        """Return the possible paths of CUPTI's library, in the order in which to try them."""
        return PLACES.libraries()

    def missing(self) -> str:
        """Return why NVIDIA's driver cannot be loaded, and the remedy; empty if it can."""
        return driver.missing([DRIVER], "install NVIDIA's driver")

    def devices(self) -> tuple[int, str]:
        """Return the number of GPUs, and the reason if there is none; this method initialises NVIDIA's driver."""
        import ctypes

        library = driver.load([DRIVER])
        count = ctypes.c_int()
        result = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
        if result:
            return 0, f"the driver answers {result}; see whether nvidia-smi works"
        return count.value, "" if count.value else "the driver has no device; see CUDA_VISIBLE_DEVICES"

    def owner(self, profiled: bool) -> str:
        """Return the name of the other profiler that uses CUPTI.

        PyTorch's profiler keeps CUPTI attached after its first use, so it is named if the script has used it.
        """
        found = owner.name(TOOLS, INJECTION)
        if not found and profiled and "torch" in sys.modules:
            return "PyTorch's own profiler, which keeps it after its first use"
        return found or owner.UNKNOWN

    def kinds(self, recordings: "Sequence[Recording]") -> Kinds:
        """Return the kinds of GPU records that at least one of these recordings needs."""
        kinds = Kinds.BASIC
        for recording in recordings:
            if recording.options.profiler_level in ("Level1", "Level2"):
                kinds |= Kinds.DRIVER
            if recording.options.cuda_graphs == "launches":
                kinds |= Kinds.GRAPHS
        return kinds

    def left_to(self, host: "Host") -> str:
        """Return why CUPTI is left to Kineto, PyTorch's profiler; empty if ms-profiler may use it."""
        if os.environ.get(DAEMON):
            return f"{DAEMON} is set: Kineto records them on demand"
        return ""
