"""The history of a job: a file with one line of JSON for each run. This module finds where the figures changed."""

import json
import os
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from ms_profiler.analysis.comparison.digest import Digest
from ms_profiler.errors import StoreError
from ms_profiler.gate import change_points, comparable, figures
from ms_profiler.gate.change_points import ChangePoint
from ms_profiler.gate.errors import NotWrittenError
from ms_profiler.gate.figures import Kind

VERSION: Final = 1
#: keys of a line of the history that this module needs, with the types of their values
_KINDS: Final = {"version": int, "label": str, "started_ns": int, "fingerprint": dict, "figures": dict}
#: properties of machine and network; runs are compared only if these are the same
SERIES: Final = ("cpu", "cores", "device", "world_size", "network")


@dataclass(frozen=True)
class Change:
    """A change of a figure in the history of a job.

    Attributes:
        metric: name of the figure.
        label: the label of the first run after the change.
        place: the position of the first run after the change in the history, counted from 1.
        point: the change in the series of this figure, with the medians before and after it.
    """

    metric: str
    label: str
    place: int
    point: ChangePoint


def entry(digest: Digest, label: str) -> dict[str, Any]:
    """Return the line that a run gets in the history, as a dictionary.

    Args:
        digest: the digest (key figures) of the run.
        label: a name of the run for people, such as the commit.
    """
    print_of = digest.to_dict()["fingerprint"]
    return {
        "version": VERSION,
        "label": label or digest.source,
        "started_ns": digest.started_ns,
        "fingerprint": print_of,
        "figures": {name: round(figure.value, 6) for name, figure in figures.of(digest).items()},
    }


def append(path: str, digests: list[Digest], label: str) -> int:
    """Append runs to a history, except those that it has already; return the number of appended runs.

    Args:
        path: the path of the history's file; a missing file is made.
        digests: the digests of the runs.
        label: the label of all these runs; by default, the label of a run is the name of its directory.

    Raises:
        UsageError: the file cannot be written.
        StoreError: a run is incomplete, so that its figures say nothing.
    """
    known = {line["started_ns"] for line in read(path)} if os.path.exists(path) else set()
    new = [digest for digest in digests if digest.started_ns not in known]
    if faults := [fault for digest in new for fault in comparable.faults(digest)]:
        raise StoreError(faults[0], "A history takes complete runs only.")
    try:
        with open(path, "a+b") as stream:
            if _is_open_ended(stream):
                stream.write(b"\n")
            stream.writelines(json.dumps(entry(digest, label)).encode() + b"\n" for digest in new)
    except OSError as error:
        raise NotWrittenError(path, error) from None
    return len(new)


def _is_open_ended(stream: BinaryIO) -> bool:
    """Return whether a file's last line has no end, as some editors leave it."""
    if not stream.seek(0, os.SEEK_END):
        return False
    stream.seek(-1, os.SEEK_END)
    return stream.read() != b"\n"


def read(path: str) -> list[dict[str, Any]]:
    """Return the lines of a history.

    Args:
        path: the path of the file.

    Raises:
        StoreError: the file cannot be read, or a line is not a line of a history.
    """
    found = []
    try:
        # with "replace", a byte that is not valid UTF-8 makes only its own line invalid, and not the whole file
        with open(path, encoding="utf-8", errors="replace") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    found.append(_line(line, f"{path}, line {number},"))
    except OSError as error:
        remedy = f"Begin one: `ms-profiler history {path} DIR`."
        raise StoreError(f"There is no history {path}: {error.strerror}.", remedy) from None
    return found


def changes(lines: list[dict[str, Any]]) -> list[Change]:
    """Return the changes in a history: of the step time first, then of the other figures that decide in a gate.

    Only runs with the same machine and network as the latest run are examined, because others are not comparable.

    Args:
        lines: the lines of the history, as `read` returns them.
    """
    series = [number for number, line in enumerate(lines) if _same(line, lines[-1])]
    names = figures.names(lines[number]["figures"] for number in series)
    found = []
    for name in names:
        if (kind := figures.metric(name).kind) in (Kind.ADVISORY, Kind.MEAN):
            continue
        # a count may well be 0, but a time or a size of 0 is unknown
        known = {number: lines[number]["figures"].get(name, -1) for number in series}
        with_it = [number for number, value in known.items() if value > 0 or (value == 0 and kind is Kind.COUNT)]
        values = [float(lines[number]["figures"][name]) for number in with_it]
        for point in change_points.find(values):
            place = with_it[point.index]
            if point.before != point.after:
                found.append(Change(name, lines[place]["label"], place + 1, point))
    return found


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one["fingerprint"].get(key) == other["fingerprint"].get(key) for key in SERIES)


def _line(text: str, where: str) -> dict[str, Any]:
    remedy = "Remove the line, or name another file."
    try:
        content = json.loads(text)
        version = content["version"]
        whole = all(isinstance(content[key], kind) for key, kind in _KINDS.items())
        if whole:
            content["figures"] = {name: figures.number(value) for name, value in content["figures"].items()}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StoreError(f"{where} is no line of a history.", remedy) from None
    if isinstance(version, int) and version > VERSION:
        raise StoreError(f"{where} has version {version}, this reads {VERSION}.", "Update ms-profiler to read it.")
    if not whole or figures.STEP not in content["figures"]:
        raise StoreError(f"{where} lacks figures.", remedy)
    return dict(content)
