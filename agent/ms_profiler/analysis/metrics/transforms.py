"""Name the function of the script that takes most of the time in MindSpore's datasets.

The functions run on several threads at a time. So their time may be longer than the run, and they may be fast enough
although they take much time. A function is named only if it took a large part of the time that the job waited for data.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics.advice.base import length
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category
from ms_profiler.store.names import TRANSFORM_CALLS, TRANSFORM_PROCESSES, TRANSFORM_TIME

#: a function is named if its time is at least this part of the waits for data
WAITED: Final = 0.5
#: the function that takes most time is named if it takes at least this share of the time of all functions
MOST: Final = 0.3
#: functions run beside the steps if they take at least this share of the steps' time
BESIDE: Final = 0.3
REMEDY: Final = (
    "To learn the time of the functions, run a few steps without python_multiprocessing. If one of them is slow, make "
    "it faster, or raise num_parallel_workers of its map or batch."
)
#: largest number of functions in other processes that are named
LISTED: Final = 3


def sums(recording: tables.Recording) -> pl.DataFrame:
    """Return the sums of each function of the script in datasets, the longest time first.

    Args:
        recording: the run.

    Returns:
        `function` (name, file and line), `calls`, `ns` (time of all calls; calls on several threads are added up).
    """
    calls, ns = (
        _largest(recording, prefix).group_by("function").agg(pl.col("value").sum().cast(pl.Int64).alias(column))
        for prefix, column in ((TRANSFORM_CALLS, "calls"), (TRANSFORM_TIME, "ns"))
    )
    found = calls.join(ns, on="function")
    return found.filter(pl.col("calls") > 0).sort("ns", "function", descending=[True, False])


def _largest(recording: tables.Recording, prefix: str) -> pl.DataFrame:
    """Return the largest value of each process's counters of functions: `function` and `value`.

    A counter of a sum since the begin of the recording has its last value there.

    Args:
        recording: the run.
        prefix: the begin of the counters' names; the function follows.
    """
    texts = (
        pl.DataFrame({"text": recording.names}).with_row_index("name").filter(pl.col("text").str.starts_with(prefix))
    )
    own = recording.counters.join(texts, on="name")
    largest = own.group_by("process", "text").agg(pl.col("value").max())
    return largest.select(pl.col("text").str.strip_prefix(prefix).alias("function"), "value")


def words(found: pl.DataFrame, recording: tables.Recording, used: Steps) -> str:
    """Return text about the function of the script that takes most time in datasets; empty if none explains the waits.

    The advice appends this text to its text about waits for data.

    Args:
        found: the sums of the functions, from `sums`.
        recording: the run.
        used: the steps in use.
    """
    if found.is_empty():
        return ""
    waits = stepping(recording.spans, used, Category.DATA)
    waited = int((waits["end_ns"] - waits["start_ns"]).sum())
    function, calls, ns = found.row(0)
    share = ns / max(int(found["ns"].sum()), 1)
    if ns < WAITED * waited or share < MOST:
        return ""
    text = f"; in its functions, {share * 100:.0f} % of the time is in {function}"
    return f"{text}: {calls:,} calls, {length(ns / calls)} each, about {length(ns)} in all"


def beside(found: pl.DataFrame, used: Steps) -> str:
    """Return text about the functions of datasets if they run during much of the steps; empty if they do not.

    They run on other threads of the process, and hold Python's global interpreter lock while they run Python code.

    Args:
        found: the sums of the functions, from `sums`.
        used: the steps in use.
    """
    whole = int(found["ns"].sum())
    if whole < BESIDE * max(int(used.table["duration_ns"].sum()), 1):
        return ""
    function, calls, ns = found.row(0)
    largest = f"{calls:,} calls of {function} take {length(ns)} of it"
    return f"; functions of the dataset run for {length(whole)} on other threads: {largest}"


def elsewhere(recording: tables.Recording) -> tuple[str, str]:
    """Return text about functions that MindSpore runs in processes of a dataset, and a remedy; empty if there are none.

    Nothing measures these functions in their processes. So the text says only which functions they are.

    Args:
        recording: the run.
    """
    found = _largest(recording, TRANSFORM_PROCESSES).group_by("function").agg(pl.col("value").max().cast(pl.Int64))
    if found.is_empty():
        return "", ""
    parts = [
        f"{function} in {count:,} process{'es' if count != 1 else ''}"
        for function, count in found.sort("function").head(LISTED).iter_rows()
    ]
    rest = f", and {found.height - LISTED} more" if found.height > LISTED else ""
    text = f"; python_multiprocessing runs functions of the dataset in other processes: {', '.join(parts)}{rest}"
    return f"{text}; their time there is not recorded", REMEDY
