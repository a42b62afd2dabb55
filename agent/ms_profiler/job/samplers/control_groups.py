"""Read the limits of this process's Linux control group and of its parent groups, which also apply (cgroups(7))."""

from _io import open
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ms_profiler import paths

#: for a group without a limit, version 1 of control groups reports this number of bytes or more
NO_LIMIT: Final = 1 << 60


@dataclass(frozen=True)
class Group:
    """A control group: a folder in the file system of a controller.

    Attributes:
        folder: the path of the folder.
        unified: whether the group belongs to version 2 of control groups.
    """

    folder: str
    unified: bool

    def read(self, name: str) -> str:
        """Return the content of one of the group's files; empty if the file is missing."""
        try:
            with open(f"{self.folder}/{name}", encoding="utf-8", errors="replace") as stream:
                return stream.read(4096)
        except OSError:
            return ""


def quota(group: Group) -> int:
    """Return how many processors a group may use, in thousandths of a processor; 0 if there is no limit."""
    if group.unified:
        words = group.read("cpu.max").split()
    else:
        words = [group.read(f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    known = len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]) > 0
    return 1000 * int(words[0]) // int(words[1]) if known else 0


def memory_limit(group: Group) -> int:
    """Return the number of bytes of memory that a group may use; 0 if it has no limit."""
    text = group.read("memory.max" if group.unified else "memory.limit_in_bytes").strip()
    return int(text) if text.isdecimal() and int(text) < NO_LIMIT else 0


def groups(controller: str, root: str) -> Iterator[Group]:
    """Yield the control group of this process, then its parent groups; nothing if the system has no groups.

    Args:
        controller: "cpu" or "memory".
        root: the directory that contains `proc` and `sys`, with a final slash; "/" except in tests.
    """
    try:
        with open(f"{root}proc/self/cgroup", encoding="utf-8", errors="replace") as stream:
            own = [line.rstrip("\n").split(":", 2) for line in stream]
        with open(f"{root}proc/self/mountinfo", encoding="utf-8", errors="replace") as stream:
            mounts = [line.split() for line in stream]
    except OSError:
        return
    folders = {name: entry[2] for entry in own if len(entry) == 3 for name in entry[1].split(",")}
    for fields in mounts:
        if "-" not in fields or len(fields) < 8:
            continue
        kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
        unified = kind == "cgroup2"
        path = folders.get("" if unified else controller)
        if path is None or not (unified or (kind == "cgroup" and controller in options)):
            continue
        above, place = fields[3].rstrip("/"), fields[4]
        inside = path[len(above) :] if path.startswith(above) else ""  # a container may see only its own group
        yield from _upwards(f"{place}/{inside.strip('/')}".rstrip("/"), place, controller, unified)


def _upwards(folder: str, top: str, controller: str, unified: bool) -> Iterator[Group]:
    present = {"cpu": "cpu.stat", "memory": "memory.current" if unified else "memory.usage_in_bytes"}[controller]
    while len(folder) >= len(top):
        if paths.exists(f"{folder}/{present}"):
            yield Group(folder, unified)
        folder = paths.dirname(folder)
