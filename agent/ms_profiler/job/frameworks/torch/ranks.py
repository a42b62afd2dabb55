"""Note the rank of this process in a distributed job, and the ranks of each group.

ms-profiler writes rank and groups into every recording as soon as it knows them, so that they are not lost when the job
is killed.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.notes import Notes, ranges

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

DISTRIBUTED = "torch.distributed.distributed_c10d"
#: descriptions that PyTorch itself gives a process group, if neither the script nor a device mesh has set one
NO_PURPOSE = ("", "undefined", "default_pg")
#: functions to call when this process joins the group of all ranks
when_joined: list[Callable[[], None]] = []


def joined() -> bool:
    """Return whether this process is in the group of all ranks."""
    # while Python still imports the module, the function does not exist yet
    told = getattr(sys.modules.get(DISTRIBUTED), "is_initialized", None)
    return told is not None and bool(told())


class Groups:
    """Find the names of process groups, and note the ranks of each group at its first use."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self._notes = Notes(host)
        self._known: set[str] = set()
        self._module: Any = sys.modules[DISTRIBUTED]

    def name(self, group: Any) -> str:
        """Return the name of a group, which is the same on all its ranks; empty if the job has no groups.

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
        name = self._text(group, "group_name") or str(module._world.pg_names.get(group, ""))
        if name and name not in self._known:
            self._known.add(name)
            ranks = module.get_process_group_ranks(group)  # older versions of PyTorch do not accept None here
            self._notes.add(f"rank {module.get_rank()} of {module.get_world_size()}", module.get_rank())
            self._notes.add(f"group {name} ranks {ranges(ranks)}", len(ranks))
            self.purpose(name, self._text(group, "group_desc"))
        return name

    def _text(self, group: Any, attribute: str) -> str:
        """Return an attribute of a group as text; empty if it is not set, as in a group that Python implements."""
        try:
            return str(getattr(group, attribute, ""))
        except RuntimeError:
            return ""

    def purpose(self, name: str, description: str) -> None:
        """Note the purpose of a group if the script or a device mesh has set one as the description of the group."""
        if description not in NO_PURPOSE:
            self._notes.add(f"group {name} for {description}", 0)


_last: Groups | None = None


def groups(host: "Host") -> Groups:
    """Return the `Groups` object of the session; all hooks share it, so that each group is noted once."""
    global _last
    if _last is None or _last.host is not host:
        _last = Groups(host)
    return _last
