"""The plugin: which concerns there are, and what MindSpore says about itself."""

import sys
from typing import TYPE_CHECKING

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.mindspore import (
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
    sync,
    takeover,
)

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


class MindSpore(base.Plugin):
    """Hook MindSpore 2.x."""

    def __init__(self) -> None:
        concerns = (
            kernels,
            loops,
            modules,
            optimizers,
            graph,
            pynative,
            primitives,
            communication,
            ranks,
            data,
            pipeline,
            checkpoint,
            sync,
            mstx,
            npu_profiler,
            own_profiler,
        )
        super().__init__("mindspore", [concern.targets for concern in concerns])

    def redirect(self, host: "Host") -> None:
        """Let ours stand in for MindSpore's own profiler classes."""
        self.add(host, own_profiler.targets)

    @property
    def yielded(self) -> str:
        """Return why MindSpore's own profiler was left running."""
        return f"MindSpore's own profiler keeps running: {takeover.kept}" if takeover.kept else ""

    @property
    def handed(self) -> tuple[str, ...]:
        """Return the options that it was handed there."""
        return takeover.HANDED if takeover.kept else ()

    def describe(self) -> dict[str, str]:
        """Return mode and device, which a script sets after the import."""
        context = sys.modules.get("mindspore.context")
        if context is None:
            return {}
        graph_mode = context.get_context("mode") == context.GRAPH_MODE
        return {"mode": "graph" if graph_mode else "pynative", "device": str(context.get_context("device_target"))}
