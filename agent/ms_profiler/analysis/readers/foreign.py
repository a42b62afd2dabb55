"""Results of other tools: which reader reads what."""

import os

from ms_profiler.analysis import tables
from ms_profiler.analysis.inputs import Kind, kind
from ms_profiler.analysis.readers import ascend_db, ascend_text, kineto
from ms_profiler.errors import StoreError


def read(path: str, ours: frozenset[str]) -> tables.Recording:
    """Read a result; where one has a database and texts, the database, which has more in it.

    Args:
        path: of `inputs.find`.
        ours: paths below it that an earlier analysis of ours wrote.

    Raises:
        StoreError: nothing in it can be read.
    """
    if kind(path) == Kind.TRACE:
        return kineto.read(path)
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
