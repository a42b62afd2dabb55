"""Replace MindSpore's own profiler classes by ours, so that our session records for a script that uses them.

Two profilers in one process would lose both recordings. A script that uses MindSpore's classes gets our classes
instead. Our classes record in the one session of this process and make a separate result. On an NPU that only
MindSpore's profiler can record, no class is replaced.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.mindspore import takeover

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

PROFILER = "mindspore.profiler.profiler"
#: (module, name in the module, name of our replacement); other modules import these names, so copies are replaced, too
NAMES = (
    (PROFILER, "Profile", "_ForgivingProfile"),
    ("mindspore.profiler", "profile", "_ForgivingProfile"),
    (PROFILER, "Profiler", "_ForgivingProfiler"),
    (PROFILER, "tensorboard_trace_handler", "tensorboard_trace_handler"),
    (PROFILER, "analyse", "_forgiving_analyse"),
    ("mindspore.profiler.dynamic_profiler", "DynamicProfilerMonitor", "DynamicProfilerMonitor"),
)


def targets(host: "Host") -> list[Target]:
    """Declare the replacements of MindSpore's classes; none unless the session replaces them."""
    if takeover.left_running or not host.redirects:
        return []

    def instead(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def replace(_: Callable[..., Any]) -> Callable[..., Any]:
            # found by its name in the package: to import `api` here would be circular, because `api` imports the hooks
            replacement: Callable[..., Any] = getattr(sys.modules["ms_profiler"], name)
            return replacement

        return replace

    return [Target(module, path, closure=instead(name), copies=True) for module, path, name in NAMES]
