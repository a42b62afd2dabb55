"""aclprof, CANN's interface to the counters of an NPU, as far as choosing and finding it goes.

It records kernels as msPTI does, at a higher cost and for an analysis that takes minutes; so it is chosen only where
something is asked for that msPTI has nothing of.
"""

import glob
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ms_profiler import cann
from ms_profiler.job.devices import npu, preload, search
from ms_profiler.job.devices.aclprof_plan import LEAST_STORAGE, needs, plan
from ms_profiler.job.devices.aclprof_tracing import REMEDY, AclprofTracing, Order, device
from ms_profiler.job.devices.interface import Interface
from ms_profiler.job.recorder.contract import Recorder
from ms_profiler.job.recorder.tracing import Kinds
from ms_profiler.options import Options
from ms_profiler.store import layout

if TYPE_CHECKING:
    from ms_profiler.job.host import Host
    from ms_profiler.job.recording import Recording

#: how MindSpore calls an NPU
TARGET = "Ascend"
PLACES = search.Places(
    variable="MS_PROFILER_LIBACLPROF",
    mapped=re.compile(r"/libmsprofiler\.so(\.\d+)*$"),
    files="libmsprofiler.so",
    names=("libmsprofiler.so", "libascendcl.so"),
    packages=(),
    homes=cann.HOMES,
    usual=cann.USUAL,
    installed=("lib64",),
)


class Aclprof(Interface):
    """Record NPUs of Ascend with their counters."""

    name: ClassVar[str] = "aclprof"
    activity: ClassVar[str] = "NPU"
    platform: ClassVar[str] = "CANN"
    traces: ClassVar[str] = "NPUs of Ascend with their counters, for CANN's msprof to read"
    package: ClassVar[str] = f"{REMEDY}, or install CANN's toolkit"
    files: ClassVar[bool] = True
    covers: ClassVar[tuple[str, ...]] = (
        *("profiler_level", "aic_metrics", "l2_cache", "hbm_ddr", "pcie"),
        *("sys_io", "sys_interconnection", "host_sys"),
    )

    @property
    def what(self) -> str:
        """See `Interface.what`."""
        return "kernels and counters of the NPU"

    def tracing(self, recorder: Recorder, host: "Host | None" = None) -> AclprofTracing:
        """See `Interface.tracing`: it hands out no records, so any recorder does."""
        if host is None:
            return AclprofTracing(None, _nobody)

        aside = 0

        def order() -> Order:
            nonlocal aside
            home, used = host.home, device()
            assert home is not None
            room, before = _room(host), aside
            aside = room + _written(host)
            host.recorder.set_aside(aside - before)
            asked = plan([recording.options for recording in host.recordings], room)
            return Order(asked, home.result, host.identity.device_id if used is None else used)

        def refused(names: Sequence[str], why: str) -> None:
            for name in names:
                host.not_collected(name, why)

        def used() -> bool:
            # a framework that says so has it in use once a step has ended, which may have run on threads of its own
            return TARGET in host.targets and host.steps.count > 0

        return AclprofTracing(order, refused, used)

    def serves(self, recordings: Sequence[Options]) -> bool:
        """See `Interface.serves`."""
        return bool(_needs(recordings))

    def reason(self, recordings: Sequence[Options]) -> str:
        """See `Interface.reason`."""
        return f"msPTI has nothing of what is asked for: {', '.join(_needs(recordings))}"

    def libraries(self) -> list[str]:
        """See `Interface.libraries`."""
        return PLACES.libraries()

    def missing(self) -> str:
        """See `Interface.missing`; the driver stays where it is."""
        return "" if npu.count() else f"there is no NPU ({npu.FOLDER}/davinci0); install Ascend's driver"

    def devices(self) -> tuple[int, str]:
        """See `Interface.devices`."""
        return npu.count(), ""

    def owner(self, profiled: bool) -> str:
        """See `Interface.owner`: the code that it answers tells."""
        return "somebody else"

    def kinds(self, recordings: "Sequence[Recording]") -> Kinds:
        """See `Interface.kinds`: what exactly was said when it was taken."""
        return Kinds.BASIC

    def left_out(self, kinds: str) -> str:
        """See `Interface.left_out`."""
        return (
            f"{kinds} is not here, which turns what it records into tables; the analysis needs it, or a machine with it"
        )

    def left_to(self, host: "Host") -> str:
        """See `Interface.left_to`."""
        if not npu.count():
            return ""
        if host.left_running:
            return f"MindSpore's own profiler has it: {host.left_running}"
        least, left = LEAST_STORAGE // 10**6, _room(host) // 10**6
        return f"max_disk leaves {left} MB to it, and it takes no limit below {least}" if left < least else ""

    def version(self, library: str, told: int) -> str:
        """See `Interface.version`: that of the toolkit; the library tells none."""
        return cann.version(library)


def _written(host: "Host") -> int:
    """Return the bytes that it has written, also into folders of before: a profiler of the script's own ends one."""
    home = host.home
    folders = glob.glob(os.path.join(glob.escape(home.result), "PROF_*")) if home is not None else []
    return sum(map(layout.size_below, folders))


def _room(host: "Host") -> int:
    """Return the bytes that it may write: half of what may be recorded, which the others then leave to it."""
    return max(host.limit // 2 - _written(host), 0)


def _needs(recordings: Sequence[Options]) -> list[str]:
    preloaded = preload.present(os.environ)
    return list(dict.fromkeys(need for options in recordings for need in needs(options, preloaded)))


def _nobody(names: Sequence[str], why: str) -> None:
    """Tell nobody what is refused where nothing is asked for."""
