"""Describe aclprof, CANN's interface to the counters of an NPU: when to use it, and where its library is.

aclprof records kernels, as msPTI does, but it costs more, and the analysis of its data takes minutes. So ms-profiler
uses aclprof only for options that request data which msPTI does not have.
"""

import glob
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ms_profiler import cann, paths
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

#: MindSpore's name for an NPU
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
    """Record NPUs of Ascend with their counters, by aclprof."""

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
        """Return what aclprof records, in words for messages."""
        return "kernels and counters of the NPU"

    def tracing(self, recorder: Recorder, host: "Host | None" = None) -> AclprofTracing:
        """Return the object that records the NPU into files of aclprof; `recorder` gets no records, and is ignored."""
        if host is None:
            return AclprofTracing(None, _ignore)

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
            # if a framework's device is the NPU, the job has used it in the first step, but perhaps on another thread
            return TARGET in host.targets and host.steps.count > 0

        return AclprofTracing(order, refused, used)

    def serves(self, recordings: Sequence[Options]) -> bool:
        """Return whether the options of these recordings request data that only aclprof has."""
        return bool(_needs(recordings))

    def reason(self, recordings: Sequence[Options]) -> str:
        """Return why aclprof records the NPU: the options that request data which msPTI does not have."""
        return f"msPTI does not serve these options: {', '.join(_needs(recordings))}"

    def libraries(self) -> list[str]:
        """Return the possible paths of aclprof's library, in the order in which to try them."""
        return PLACES.libraries()

    def missing(self) -> str:
        """Return why there is no NPU, and the remedy; empty if there is one. This method does not load the driver."""
        return "" if npu.count() else f"there is no NPU ({npu.FOLDER}/davinci0); install Ascend's driver"

    def devices(self) -> tuple[int, str]:
        """Return the number of NPUs, and an empty text."""
        return npu.count(), ""

    def owner(self, profiled: bool) -> str:
        """Return words for the other profiler that uses aclprof; its name is not known."""
        return "another profiler"

    def kinds(self, recordings: "Sequence[Recording]") -> Kinds:
        """Return a value that only means "record": the kinds of data are requested when aclprof is attached."""
        return Kinds.BASIC

    def left_out(self, kinds: str) -> str:
        """Return what is missing for the analysis of aclprof's files; `kinds` is the name of the missing program."""
        return (
            f"{kinds} is missing; it turns aclprof's files into tables, so analyse the result on a machine that has it"
        )

    def left_to(self, host: "Host") -> str:
        """Return why aclprof must not record: another profiler has it, or disk space is short. Empty if it may."""
        if not npu.count():
            return ""
        if host.left_running:
            return f"MindSpore's own profiler has it: {host.left_running}"
        least, left = LEAST_STORAGE // 10**6, _room(host) // 10**6
        if left >= least:
            return ""
        return f"{host.limited_by} leaves {left} MB for aclprof, which needs {least} MB or more"

    def version(self, library: str, number: int) -> str:
        """Return the version of CANN's toolkit, because aclprof's library does not report a version."""
        return cann.version(library)


def _written(host: "Host") -> int:
    """Return the bytes in all folders that aclprof has made; it makes a new folder each time it is attached."""
    home = host.home
    folders = glob.glob(paths.join(glob.escape(home.result), "PROF_*")) if home is not None else []
    return sum(map(layout.size_below, folders))


def _room(host: "Host") -> int:
    """Return the bytes that aclprof may still write: half of the disk limit, minus the bytes it has written so far."""
    return max(host.limit // 2 - _written(host), 0)


def _needs(recordings: Sequence[Options]) -> list[str]:
    preloaded = preload.present(os.environ)
    return list(dict.fromkeys(need for options in recordings for need in needs(options, preloaded)))


def _ignore(names: Sequence[str], why: str) -> None:
    """Ignore refused options, because a test of the interface requests no options."""
