"""Cache the parsed columns of a large trace, so that ms-profiler does not parse its text again for the next query.

The cache lies in the result directory of the trace. If this directory is missing or read-only, the cache lies in the
user's cache directory. An entry is valid for one file, identified by device, inode, size and times of change, and for
one version of the reading code. Without a valid entry, the trace is parsed again. An entry is a folder. The folder gets
its final name when it is complete, so every folder with a final name is usable. A failure of the cache is never an
error, because ms-profiler can parse the trace instead.
"""

import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from typing import Final

import polars as pl

from ms_profiler import __version__
from ms_profiler.analysis.driver import inputs
from ms_profiler.analysis.readers import trace_events, trace_text
from ms_profiler.store.reader import ReadCounts

#: smallest trace to cache, in bytes: some 20,000 events, which are parsed in 0.2 s
LEAST: Final = 1 << 22
#: largest number of traces cached in the user's cache directory
_MOST: Final = 4
#: If a file changed less than this long ago (ns), it may change again and keep its modification time. Then a change of
#: the file would not be noticed, so the file is not cached.
_SETTLED: Final = 2_000_000_000
_FOLDER: Final = ".ms_profiler_cache"
_TABLES: Final = ("spans", "flows", "counters", "held", "found")
_REST: Final = "rest.json"


def read(path: str, arguments: tuple[str, ...], counts: ReadCounts) -> trace_events.Events:
    """Return the events of a trace from the cache, or parse the trace and write the cache.

    Args:
        path: the path of the trace.
        arguments: names of the arguments of events to read.
        counts: receives the number of damaged events and files.

    Raises:
        OSError: the file cannot be opened.
    """
    before = os.stat(path)
    if before.st_size < LEAST:
        return trace_events.read(path, arguments, counts)
    key = _key(before, arguments)
    for folder in _folders(path):
        if (found := _load(os.path.join(folder, key))) is not None:
            return found
    damage = _damage(counts)
    events = trace_events.read(path, arguments, counts)
    # Do not cache a trace that is still being written. Do not cache a damaged trace either: each reading has to report
    # the damage, and the cache does not store it
    settled = time.time_ns() - before.st_mtime_ns > _SETTLED and _key(os.stat(path), arguments) == key
    if settled and _damage(counts) == damage:
        for folder in _folders(path):
            if _write(events, folder, key):
                break
    return events


def folder(path: str, arguments: tuple[str, ...]) -> str | None:
    """Return the folder of a trace's cache entry; None if the trace has no cache entry.

    Args:
        path: the path of the trace.
        arguments: names of the arguments of events, as for `read`.
    """
    if not os.path.isfile(path) or (found := os.stat(path)).st_size < LEAST:
        return None
    key = _key(found, arguments)
    return next((place for parent in _folders(path) if _own(place := os.path.join(parent, key))), None)


def _key(found: os.stat_result, arguments: tuple[str, ...]) -> str:
    identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return hashlib.sha256(json.dumps([identity, arguments, __version__, pl.__version__, _code()]).encode()).hexdigest()


def _code() -> str:
    """Return a digest of the reading code, which may change without a new version number."""
    digest = hashlib.sha256()
    for module in (trace_events, trace_text):
        with open(str(module.__file__), "rb") as stream:
            digest.update(stream.read())
    return digest.hexdigest()


def _folders(path: str) -> list[str]:
    """Return the folders for cache entries, the preferred one first. A missing result directory is left out."""
    user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    result, own = inputs.result(path), os.path.join(user, "ms-profiler", "traces")
    return [*([os.path.join(result, _FOLDER)] if os.path.isdir(result) else []), own]


def _damage(counts: ReadCounts) -> tuple[int, int]:
    return counts.damaged_events, len(counts.damaged_files)


def _load(folder: str) -> trace_events.Events | None:
    try:
        if not _own(folder):
            return None
        with open(os.path.join(folder, _REST), encoding="utf-8") as stream:
            rest = json.load(stream)
        frames = {name: _texts(pl.read_ipc(os.path.join(folder, f"{name}.arrow")), pl.String) for name in _TABLES}
        threads = {(pid, tid): name for pid, tid, name in rest["threads"]}
        os.utime(folder)
        spans, flows, counters, held, found = (frames[name] for name in _TABLES)
        processes, labels, head = (rest[name] for name in ("processes", "labels", "head"))
        return trace_events.Events(spans, flows, counters, held, found, processes, labels, threads, head)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, pl.exceptions.PolarsError):
        return None


def _own(folder: str) -> bool:
    """Return whether a folder exists and belongs to this user. A folder of another user is not trusted."""
    try:
        there = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(there.st_mode) and there.st_uid == os.geteuid()


def _write(events: trace_events.Events, parent: str, key: str) -> bool:
    """Write a cache entry, and return whether the cache has the entry now. Another process may have written it."""
    made = ""
    try:
        os.makedirs(parent, mode=0o750, exist_ok=True)
        made = tempfile.mkdtemp(dir=parent, prefix=".")
        for name in _TABLES:
            table = _texts(getattr(events, name), pl.Categorical)
            table.write_ipc(os.path.join(made, f"{name}.arrow"), compression="lz4")
        rest = {
            "processes": events.processes,
            "labels": events.labels,
            "threads": [(*thread, name) for thread, name in events.threads.items()],
            "head": events.head,
        }
        with open(os.path.join(made, _REST), "w", encoding="utf-8") as stream:
            json.dump(rest, stream)
        os.rename(made, os.path.join(parent, key))
    except (OSError, ValueError, TypeError, pl.exceptions.PolarsError):
        shutil.rmtree(made, ignore_errors=True)
        return os.path.isdir(os.path.join(parent, key))
    _tidy(parent, key)
    return True


def _tidy(parent: str, key: str) -> None:
    """Remove old entries. A result directory keeps only `key`, the user's cache keeps the `_MOST` latest entries."""
    others = [os.path.join(parent, name) for name in os.listdir(parent) if name != key and not name.startswith(".")]
    most = 0 if os.path.basename(parent) == _FOLDER else _MOST - 1
    for folder in sorted(others, key=_age, reverse=True)[most:]:
        shutil.rmtree(folder, ignore_errors=True)


def _age(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _texts(table: pl.DataFrame, kind: type[pl.DataType]) -> pl.DataFrame:
    """Convert the text columns of a table to another type. A Categorical column stores a repeated text once."""
    held = [name for name, of in table.schema.items() if of in (pl.String, pl.Categorical)]
    return table.with_columns(pl.col(held).cast(kind))
