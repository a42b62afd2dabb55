"""Sample the process itself, in the same way for every framework.

The samplers begin and end with the hooks of the first framework.
"""

from typing import TYPE_CHECKING

from ms_profiler.job.samplers import garbage, resident, stacks, system

if TYPE_CHECKING:
    from ms_profiler.job.frameworks.base import Target
    from ms_profiler.job.host import Host


def targets(host: "Host") -> list["Target"]:
    """Register the samplers as sources of the session; return no targets, because nothing is wrapped."""
    garbage.watch(host)
    resident.watch(host)
    stacks.watch(host)
    system.watch(host)
    return []
