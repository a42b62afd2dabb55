"""Record data of the process itself, such as its memory and stacks, in the same way for every framework.

A sampler records one kind of such data. All samplers begin and end together with the hooks of the first framework, or
without any if a script records before it imports one.
"""

from typing import TYPE_CHECKING

from ms_profiler.job.samplers import garbage, resident, stacks, system

if TYPE_CHECKING:
    from ms_profiler.job.frameworks.base import Target
    from ms_profiler.job.host import Host


def targets(host: "Host") -> list["Target"]:
    """Register the samplers with the session; return an empty list, because no function of a framework is wrapped."""
    garbage.watch(host)
    resident.watch(host)
    stacks.watch(host)
    system.watch(host)
    return []
