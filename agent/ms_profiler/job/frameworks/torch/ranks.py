"""Note the rank of this process in a distributed job, and the ranks of each group.

Both are noted in the store at once, for every recording, so that they survive a kill.
"""

import sys
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.notes import Notes, ranges

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

DISTRIBUTED = "torch.distributed.distributed_c10d"
#: PyTorch's description of a group without a purpose
UNTOLD = ("", "undefined", "default_pg")


class Groups:
    """Name process groups, and note each when it is first used."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self._notes = Notes(host)
        self._known: set[str] = set()
        self._module: Any = sys.modules[DISTRIBUTED]

    def name(self, group: Any) -> str:
        """Return the name of a group, the same on every rank in it; empty where this rank is in none.

        Args:
            group: the group, or its name; None means the group of all ranks.
        """
        module = self._module
        if not module.is_initialized():
            return ""
        if isinstance(group, str):
            if group in self._known:
                return group
            group = module._resolve_process_group(group)
        group = module._get_default_group() if group is None else group
        name = str(getattr(group, "group_name", ""))
        if name and name not in self._known:
            self._known.add(name)
            ranks = module.get_process_group_ranks(group)  # older versions do not take None
            self._notes.add(f"rank {module.get_rank()} of {module.get_world_size()}", module.get_rank())
            self._notes.add(f"group {name} ranks {ranges(ranks)}", len(ranks))
            self.purpose(name, str(getattr(group, "group_desc", "")))
        return name

    def purpose(self, name: str, told: str) -> None:
        """Note the purpose of a group, as the script or a device mesh names it, if it has one."""
        if told not in UNTOLD:
            self._notes.add(f"group {name} for {told}", 0)


_last: Groups | None = None


def groups(host: "Host") -> Groups:
    """Return the groups of a session, so that each is noted once, whichever caller uses it first."""
    global _last
    if _last is None or _last.host is not host:
        _last = Groups(host)
    return _last
