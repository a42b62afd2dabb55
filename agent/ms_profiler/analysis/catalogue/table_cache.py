"""Cache the tables that queries read from a large trace, so that the next query does not analyse the trace again.

The tables are stored in the folder that `readers.trace_cache` has for the trace. They are valid until the trace or
ms-profiler's code changes. A query reads only the columns that it uses.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final

import polars as pl

import ms_profiler
from ms_profiler.analysis.catalogue.table import Table
from ms_profiler.analysis.readers import foreign, trace_cache

_NOTES: Final = ".json"
_ROWS: Final = ".arrow"


@dataclass
class Cached:
    """A table of a run.

    Attributes:
        rank: the rank of the run in its launch.
        rows: the rows of the table, without the columns `directory` and `rank`.
        notes: remarks about the rows.
    """

    rank: int
    rows: pl.LazyFrame
    notes: list[str]


def load(path: str, tables: Sequence[Table]) -> dict[str, Cached] | None:
    """Return the cached tables by name; None if the cache lacks one of them.

    Args:
        path: path of a result that `engine.find` found.
        tables: the tables that the query names.
    """
    folder = trace_cache.folder(path, foreign.ARGUMENTS)
    if folder is None:
        return None
    found = {}
    try:
        for table in tables:
            place = _place(folder, table)
            with open(place + _NOTES, encoding="utf-8") as stream:
                stored = json.load(stream)
            rows = pl.scan_ipc(place + _ROWS)
            if rows.collect_schema() != table.schema:
                return None
            found[table.name] = Cached(stored["rank"], rows, stored["notes"])
    except (OSError, ValueError, TypeError, KeyError, pl.exceptions.PolarsError):
        return None
    return found


def store(path: str, table: Table, rank: int, rows: pl.DataFrame, notes: list[str]) -> None:
    """Write a table into the cache of its trace, if the trace has one. Errors are ignored.

    Args:
        path: path of a result that `engine.find` found.
        table: the table.
        rank: the rank of the run in its launch.
        rows: the rows of the table.
        notes: remarks about the rows.
    """
    folder = trace_cache.folder(path, foreign.ARGUMENTS)
    if folder is None:
        return
    place = _place(folder, table)
    with suppress(OSError, pl.exceptions.PolarsError):
        # the notes are written last: if they exist, the rows exist, too
        _write(place + _ROWS, lambda name: rows.write_ipc(name, compression="lz4"))
        _write(place + _NOTES, lambda name: _text(name, json.dumps({"rank": rank, "notes": notes})))


def _text(name: str, text: str) -> None:
    with open(name, "w", encoding="utf-8") as stream:
        stream.write(text)


def _write(path: str, write: Callable[[str], object]) -> None:
    descriptor, name = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".")
    os.close(descriptor)
    try:
        write(name)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _place(folder: str, table: Table) -> str:
    return os.path.join(folder, f"table_{table.name}_{_code()}")


@cache
def _code() -> str:
    """Return a digest of ms-profiler's files. The version number is not enough: code changes between versions."""
    files, root = [], os.path.dirname(str(ms_profiler.__file__))
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            if not name.endswith(".pyc"):
                found = os.stat(os.path.join(folder, name))
                files.append((name, found.st_size, found.st_mtime_ns))
    return hashlib.sha256(json.dumps([files, pl.__version__]).encode()).hexdigest()[:16]
