"""The plugin of MindSpore: a list of the files whose hooks it applies, and the description of the framework."""

import sys
from typing import TYPE_CHECKING

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.mindspore import (
    callbacks,
    checkpoint,
    communication,
    data,
    graph,
    kernels,
    loops,
    modules,
    mstx,
    npu_profiler,
    optimizers,
    own_profiler,
    pipeline,
    primitives,
    pynative,
    ranks,
    runtime_memory,
    sync,
    takeover,
    transforms,
)

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


class MindSpore(base.Plugin):
    """Hook MindSpore 2.x."""

    def __init__(self) -> None:
        concerns = (
            kernels,
            loops,
            callbacks,
            modules,
            optimizers,
            graph,
            pynative,
            primitives,
            communication,
            ranks,
            data,
            transforms,
            pipeline,
            checkpoint,
            sync,
            mstx,
            npu_profiler,
            own_profiler,
            runtime_memory,
        )
        super().__init__("mindspore", [concern.targets for concern in concerns])

    def redirect(self, host: "Host") -> None:
        """Replace MindSpore's own profiler classes by ours."""
        self.add(host, own_profiler.targets)

    @property
    def left_running(self) -> str:
        """Return why ms-profiler let MindSpore's own profiler run; empty if it does not run."""
        return f"MindSpore's own profiler keeps running: {takeover.left_running}" if takeover.left_running else ""

    @property
    def forwarded_options(self) -> tuple[str, ...]:
        """Return the names of the options that MindSpore's own profiler serves while it is left running."""
        return takeover.FORWARDED if takeover.left_running else ()

    def describe(self) -> dict[str, str]:
        """Return MindSpore's mode and device at the end of the run; a script sets both after the import."""
        context = sys.modules.get("mindspore.context")
        if context is None:
            return {}
        graph_mode = context.get_context("mode") == context.GRAPH_MODE
        return {"mode": "graph" if graph_mode else "pynative", "device": str(context.get_context("device_target"))}
