"""Replace MindSpore's own profiler classes by ours, so that our session records for a script that uses them.

If MindSpore's profiler and ms-profiler both ran in one process, both recordings would be lost. So a script that uses
MindSpore's classes gets our classes instead. They record with ms-profiler, and make a separate result. If only
MindSpore's profiler can record the NPU of the machine, no class is replaced.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.mindspore import takeover

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

PROFILER = "mindspore.profiler.profiler"
#: (module, name in the module, name of our replacement). Other modules import these names. They get the replacement,
#: too.
NAMES = (
    (PROFILER, "Profile", "_ForgivingProfile"),
    ("mindspore.profiler", "profile", "_ForgivingProfile"),
    (PROFILER, "Profiler", "_ForgivingProfiler"),
    (PROFILER, "tensorboard_trace_handler", "_forgiving_trace_handler"),
    (PROFILER, "analyse", "_forgiving_analyse"),
    ("mindspore.profiler.dynamic_profiler", "DynamicProfilerMonitor", "_ForgivingMonitor"),
)


def targets(host: "Host") -> list[Target]:
    """Return MindSpore's profiler classes with our replacements; empty if ms-profiler leaves MindSpore's in place."""
    if takeover.left_running or not host.redirects:
        return []

    def instead(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def replace(_: Callable[..., Any]) -> Callable[..., Any]:
            # Find our class by its name, without an import of `api`: `api` imports the hooks, and imports must not run
            # in a circle.
            replacement: Callable[..., Any] = getattr(sys.modules["ms_profiler"], name)
            return replacement

        return replace

    return [Target(module, path, closure=instead(name), copies=True) for module, path, name in NAMES]
