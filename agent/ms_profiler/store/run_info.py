"""The run's record: its options, its hooks, missing data and its end.

There are two small JSON files. Each is rewritten as a whole (temporary file, then rename) whenever something changes,
so that the last state survives a kill. `state` is "running" until the process writes its end. When a reader finds
"running" and no such process, the process ended without Python's exit.
"""

import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, TypeVar, get_args, get_origin

from ms_profiler.store import layout, unicode
from ms_profiler.store.file_limit import limited

RECORD_VERSION = 1
#: Largest number of entries in a list of a record: notes that repeat in other words must not slow the job down.
NOTES = 200
_LARGEST: Final = (1 << 63) - 1
_LARGEST_PID: Final = (1 << 32) - 1


@dataclass
class RunInfo:
    """The record of one run, written by the process that owns the result directory.

    Times named `*_ns` are CLOCK_MONOTONIC_RAW nanoseconds, `*_wall` seconds since the epoch.
    """

    version: int = RECORD_VERSION
    product_version: str = ""
    pid: int = 0
    host: str = ""
    #: identifies this boot of this host, so that a pid found later is not taken for ours
    boot_id: str = ""
    #: start of the process in clock ticks since boot (/proc/self/stat field 22)
    process_start: int = 0
    started_wall: float = 0.0
    started_ns: int = 0
    #: resolved options, by name
    options: dict[str, Any] = field(default_factory=dict)
    #: the lines about bad options, as printed
    messages: list[str] = field(default_factory=list)
    rank: int = 0
    #: false if the framework assigns ranks after the start; `rank` is then the likeliest number
    rank_known: bool = True
    local_rank: int = 0
    world_size: int = 1
    device_id: int = 0
    #: role of this process in its job: the class of an actor; empty if all processes do the same
    role: str = ""
    #: {"actor": id, "name": ...} of an actor of Ray, as far as Ray reports them
    actor: dict[str, str] = field(default_factory=dict)
    #: starts of this rank before this one by the same launcher, and the name of the result of the last of them
    attempt: int = 0
    before: str = ""
    #: ranks of one launch on this host share it; the last of them to end analyses all
    job: str = ""
    python: str = ""
    #: {"cpu": model of the processor, "cores": processors of the machine, "device": model}, as far as known
    machine: dict[str, str] = field(default_factory=dict)
    #: {"name": "mindspore", "version": "2.10.0", "mode": "graph" | "pynative" | "", "device": "CPU"}
    framework: dict[str, str] = field(default_factory=dict)
    #: target -> "applied" | "missing: reason" | "failed: reason"
    hooks: dict[str, str] = field(default_factory=dict)
    #: activity -> {"interface": the one that records it, "why": it was chosen}
    device_sources: dict[str, dict[str, str]] = field(default_factory=dict)
    #: {"what": ..., "why": ...} each
    not_collected: list[dict[str, str]] = field(default_factory=list)
    #: {"source": StepSource name in lower case, "why": ...}; empty until decided
    steps: dict[str, str] = field(default_factory=dict)
    #: {"start_ns", "end_ns": part of a shared store that belongs to this run; "shift": added to numbers of steps;
    #: "step", "step_ns": number and begin of the step that ran at `end_ns`}; empty if the whole store belongs to it
    window: dict[str, int] = field(default_factory=dict)
    #: metadata that the script added to the result, by key
    metadata: dict[str, Any] = field(default_factory=dict)
    #: {"span_ns": cost of one recorded span, "idle_ns": cost of one hook that records nothing, "start_ns": start-up}
    cost: dict[str, float] = field(default_factory=dict)


@dataclass
class ProcessInfo:
    """The record of one process that recorded into a result directory."""

    version: int = RECORD_VERSION
    pid: int = 0
    parent: int = 0
    process_start: int = 0
    #: "main", or the kind of child: "fork", "spawn"
    role: str = "main"
    name: str = ""
    #: "native" or "python"
    recorder: str = ""
    #: why the native recorder is not in use; empty when it is
    recorder_reason: str = ""
    #: "running" | "ended"
    state: str = "running"
    #: "exit" | "exception: NAME" | "stopped" (the profiler, not the process) | "" while running
    end: str = ""
    ended_ns: int = 0
    records: int = 0
    dropped: int = 0
    dropped_limit: int = 0
    bytes: int = 0
    threads: int = 0
    #: pids of the children that were alive when it exited, which multiprocessing then ends
    daemons: list[int] = field(default_factory=list)
    #: missing data of this process, `what` and `why`, if another process writes the run's record
    missing: list[dict[str, str]] = field(default_factory=list)

    def not_collected(self, what: str, why: str) -> None:
        """Note data of this process that the result will lack, and why."""
        note(self.missing, {"what": what, "why": why}, {"what": "more of this list", "why": f"only {NOTES} are kept"})


_Note = TypeVar("_Note")


def note(notes: list[_Note], entry: _Note, more: _Note) -> bool:
    """Add a note to a list of a record, once; return whether it is new and there was room for it.

    Args:
        notes: the notes of the record.
        entry: the note to add.
        more: the text that replaces all entries after the first `NOTES`.
    """
    if len(notes) > NOTES or entry in notes:
        return False
    notes.append(entry if len(notes) < NOTES else more)
    return len(notes) <= NOTES


_Record = TypeVar("_Record", RunInfo, ProcessInfo)


def write(
    path: str, record: RunInfo | ProcessInfo, told: Callable[[RunInfo | ProcessInfo], dict[str, Any]] = asdict
) -> None:
    """Replace the file at `path` by `record`, atomically.

    Args:
        path: the path of the file.
        record: the record.
        told: returns the written form of it.
    """
    replace(path, json.dumps(told(record), indent=1))


def replace(path: str, content: str) -> None:
    """Replace the file at `path` by a text, atomically."""
    temporary = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, layout.FILE_MODE)
    try:
        with limited(), os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(content)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def read_run(path: str) -> RunInfo:
    """Read the record of a run; unknown keys are ignored, missing ones keep their defaults.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a JSON object.
    """
    return _read(path, RunInfo)


def read_process(path: str) -> ProcessInfo:
    """Read the record of a process, as `read_run` does."""
    return _read(path, ProcessInfo)


def _read(path: str, kind: type[_Record]) -> _Record:
    with open(path, encoding="utf-8") as stream:
        content = unicode.whole(json.load(stream))
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds {type(content).__name__}, not an object")
    known = {item.name: item.type for item in fields(kind) if item.name in content}
    for name, wanted in known.items():
        if not _fits(content[name], wanted):
            raise ValueError(f"{path} has {str(content[name])[:80]!r} as {name}")
    if not 0 <= content.get("pid", 0) <= _LARGEST_PID:
        raise ValueError(f"{path} has {content['pid']} as pid")
    return kind(**{name: content[name] for name in known})


def _fits(value: Any, wanted: Any) -> bool:
    """Return whether a value of a record has its type; in a dictionary, only whole numbers are checked."""
    if wanted is float:
        return type(value) in (int, float) and math.isfinite(value)
    if wanted is int:
        return type(value) is int and abs(value) <= _LARGEST
    origin, arguments = get_origin(wanted) or wanted, get_args(wanted)
    if not isinstance(value, origin):
        return False
    if origin is list:
        return all(_fits(item, arguments[0]) for item in value)
    return origin is not dict or arguments[1] is not int or all(_fits(item, int) for item in value.values())
