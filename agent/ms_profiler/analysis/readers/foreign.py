"""Choose the reader for a result that another tool wrote, for example PyTorch's profiler."""

import os
from typing import Final

from ms_profiler.analysis.driver.inputs import Kind, kind
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import ascend_db, ascend_text, kineto, trace_cache
from ms_profiler.errors import StoreError
from ms_profiler.store.reader import ReadCounts

#: names of the arguments of spans that are read
ARGUMENTS: Final = (*kineto.ARGUMENTS, *ascend_text.ARGUMENTS)


def read(path: str, ours: frozenset[str]) -> tables.Recording:
    """Read another tool's result. If it has a database and text files, read the database, which contains more.

    Args:
        path: a path that `inputs.find` returned.
        ours: paths, relative to the result, of files that ms-profiler wrote; these files are not read.

    Raises:
        StoreError: the result has no event that can be read.
    """
    if kind(path) == Kind.TRACE:
        return _trace(path)
    database = ascend_db.database(path, ours)
    if database is None:
        return ascend_text.read(path, ours)
    try:
        return ascend_db.read(path, database, ours)
    except StoreError as damage:
        try:
            recording = ascend_text.read(path, ours)
        except StoreError:
            raise damage from None
        recording.counts.damaged_files.append((os.path.basename(database), "nothing in it can be read"))
        return recording


def _trace(path: str) -> tables.Recording:
    """Read a trace file. A trace with a process of Ascend's hardware comes from Ascend's tools, others from Kineto."""
    counts = ReadCounts()
    try:
        events = trace_cache.read(path, ARGUMENTS, counts)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}.") from error
    if events.of_process(ascend_text.HARDWARE).is_empty():
        return kineto.of_trace(path, events, counts)
    return ascend_text.of_trace(path, events, counts)
