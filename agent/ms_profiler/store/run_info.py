"""The records of a run and of its processes: options, hooks, missing data, and the end.

A record is a small JSON file: `run_info.json` or `process_info.json`. At each change, the process writes a temporary
file and renames it, so that the last state is not lost when the process is killed. `state` is "running" until the
process writes how it ended. If a reader finds "running" but no such process, the process ended without Python's exit.
"""

import math
import posix
from _io import open
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from json import dumps, loads
from typing import Any, Final, TypeVar, get_args, get_origin

from ms_profiler.store import layout, unicode
from ms_profiler.store.file_limit import limited

RECORD_VERSION = 1
#: Largest number of entries in a list of a record. The limit exists because many similar notes would slow the job down.
NOTES = 200
_LARGEST: Final = (1 << 63) - 1
_LARGEST_PID: Final = (1 << 32) - 1


@dataclass
class RunInfo:
    """The record of one run (`run_info.json`), which the process writes that made the result directory.

    Fields named `*_ns` are times of CLOCK_MONOTONIC_RAW in ns. Fields named `*_wall` are seconds since the epoch.
    """

    version: int = RECORD_VERSION
    product_version: str = ""
    pid: int = 0
    host: str = ""
    #: identifies the current boot of the host; after the next boot, a process id means another process
    boot_id: str = ""
    #: start of the process in clock ticks since boot (/proc/self/stat field 22)
    process_start: int = 0
    started_wall: float = 0.0
    started_ns: int = 0
    #: the resolved options, by name
    options: dict[str, Any] = field(default_factory=dict)
    #: the printed lines about bad options
    messages: list[str] = field(default_factory=list)
    rank: int = 0
    #: false while the framework has not assigned the rank yet; `rank` is then a guess
    rank_known: bool = True
    local_rank: int = 0
    world_size: int = 1
    device_id: int = 0
    #: role of this process in its job, for example the class of a Ray actor; empty if all processes do the same
    role: str = ""
    #: {"actor": id, "name": ...} if this process is an actor of Ray, as far as Ray reports the two
    actor: dict[str, str] = field(default_factory=dict)
    #: number of earlier attempts: how often the same launcher has started this rank before
    attempt: int = 0
    #: name of the newest result directory of the earlier attempts
    before: str = ""
    #: name of the launch, which all ranks of a launch on this host share; the rank that ends last analyses all results
    job: str = ""
    python: str = ""
    #: {"cpu": model of the processor, "cores": processors of the machine, "device": model}, as far as known
    machine: dict[str, str] = field(default_factory=dict)
    #: {"name": "mindspore", "version": "2.10.0", "mode": "graph" | "pynative" | "", "device": "CPU"}
    framework: dict[str, str] = field(default_factory=dict)
    #: for each function of the framework to wrap: its name -> "applied" | "missing: reason" | "failed: reason"
    hooks: dict[str, str] = field(default_factory=dict)
    #: kind of device, "GPU" or "NPU" -> {"interface": the interface that records it, "why": why ms-profiler chose it}
    device_sources: dict[str, dict[str, str]] = field(default_factory=dict)
    #: data that the result lacks; an entry is {"what": the data, "why": the reason}
    not_collected: list[dict[str, str]] = field(default_factory=list)
    #: what decides where steps end: {"source": name of a `StepSource` in lower case, "why": ...}; empty until known
    steps: dict[str, str] = field(default_factory=dict)
    #: Several results may share their recorded data. Then this says which part belongs to this result; otherwise it is
    #: empty. "start_ns", "end_ns": begin and end of the part. "shift": number that is added to the numbers of steps.
    #: "step", "step_ns": number and begin of the step that ran at `end_ns`.
    window: dict[str, int] = field(default_factory=dict)
    #: metadata that the script added to the result, by key
    metadata: dict[str, Any] = field(default_factory=dict)
    #: What ms-profiler costs. "span_ns": time to record one span. "idle_ns": time of one call of a hook that records
    #: nothing. "start_ns": time of the start. "hooks_ns", "hooks_own_ns", "hooks_steps", "rest_ns", "helper":
    #: see `job.budget.Budget.cost`.
    cost: dict[str, float] = field(default_factory=dict)

    def listed(self, option: str) -> list[str]:
        """Return the texts of an option that is a list; an empty list if the option is unset or damaged.

        Args:
            option: the name of the option.
        """
        value = self.options.get(option)
        return [text for text in value if isinstance(text, str)] if isinstance(value, (list, tuple)) else []

    def numbers(self) -> dict[str, int]:
        """Return the entries of `framework` whose values are numbers of at most nine digits, such as `threads`."""
        return {key: int(text) for key, text in self.framework.items() if text.isdecimal() and len(text) < 10}


@dataclass
class ProcessInfo:
    """The record of one process that recorded into a result directory (`process_info.json`)."""

    version: int = RECORD_VERSION
    pid: int = 0
    parent: int = 0
    process_start: int = 0
    #: "main", or the kind of child: "fork", "spawn"
    role: str = "main"
    name: str = ""
    #: "native" or "python"
    recorder: str = ""
    #: the reason why the process does not use the native recorder; empty if it does
    recorder_reason: str = ""
    #: "running" | "ended"
    state: str = "running"
    #: how the process ended: "exit" | "exception: NAME" | "stopped" (only the profiler ended) | "" while it runs
    end: str = ""
    ended_ns: int = 0
    records: int = 0
    dropped: int = 0
    dropped_limit: int = 0
    bytes: int = 0
    threads: int = 0
    #: ids of the child processes that were alive when the process exited; multiprocessing then ends these children
    daemons: list[int] = field(default_factory=list)
    #: Data of this process that the result lacks, as "what" and "why". A process uses this list if another process
    #: writes `run_info.json`.
    missing: list[dict[str, str]] = field(default_factory=list)

    def not_collected(self, what: str, why: str) -> None:
        """Note that the result lacks some data of this process, and why."""
        note(self.missing, {"what": what, "why": why}, {"what": "more of this list", "why": f"only {NOTES} are kept"})


_Note = TypeVar("_Note")


def note(notes: list[_Note], entry: _Note, more: _Note) -> bool:
    """Add a note to a list of a record, if it is new and the list is not full; return whether it was added.

    Args:
        notes: the notes of the record.
        entry: the note to add.
        more: the last entry of a full list, which stands for all further notes.
    """
    if len(notes) > NOTES or entry in notes:
        return False
    notes.append(entry if len(notes) < NOTES else more)
    return len(notes) <= NOTES


_Record = TypeVar("_Record", RunInfo, ProcessInfo)


def write(
    path: str, record: RunInfo | ProcessInfo, as_dict: Callable[[RunInfo | ProcessInfo], dict[str, Any]] = asdict
) -> None:
    """Write a record to the file at `path`, replacing the file atomically.

    Args:
        path: the path of the JSON file.
        record: the record to write.
        as_dict: a function that turns the record into a dictionary for JSON.
    """
    replace(path, dumps(as_dict(record), indent=1))


def replace(path: str, content: str) -> None:
    """Replace the file at `path` by a text, atomically."""
    temporary = f"{path}.{posix.getpid()}.tmp"
    descriptor = posix.open(
        temporary, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW, layout.FILE_MODE
    )
    try:
        with limited(), open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(content)
        posix.replace(temporary, path)
    except OSError:
        posix.unlink(temporary)
        raise


def read_run(path: str) -> RunInfo:
    """Read the record of a run (`run_info.json`); ignore unknown keys, and use default values for missing ones.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file holds no JSON object.
    """
    return _read(path, RunInfo)


def read_process(path: str) -> ProcessInfo:
    """Read the record of a process (`process_info.json`); ignore unknown keys, use default values for missing ones."""
    return _read(path, ProcessInfo)


def _read(path: str, kind: type[_Record]) -> _Record:
    with open(path, encoding="utf-8") as stream:
        content = unicode.whole(loads(stream.read()))
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
    """Return whether a value and, in a list or dictionary, each of its items has the wanted type.

    In a dictionary, the type `Any` accepts every value.
    """
    if wanted is float:
        return type(value) in (int, float) and math.isfinite(value)
    if wanted is int:
        return type(value) is int and abs(value) <= _LARGEST
    origin, arguments = get_origin(wanted) or wanted, get_args(wanted)
    if not isinstance(value, origin):
        return False
    if origin is list:
        return all(_fits(item, arguments[0]) for item in value)
    return origin is not dict or arguments[1] is Any or all(_fits(item, arguments[1]) for item in value.values())
