"""The steps of a run and their durations."""

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ms_profiler.analysis.metrics import leading
from ms_profiler.analysis.model import tables
from ms_profiler.errors import UsageError
from ms_profiler.store.format import TRAINING, Category, StepSource

#: largest number of slowest steps that are listed
SLOWEST = 5
#: the first step that is not disturbed does not count as steady, if there are more than this many steps of this kind
WARMED = 2


@dataclass(frozen=True)
class Steps:
    """The steps in use: consecutive steps of one thread, whose ends come from one source.

    Attributes:
        process: pid of the process that runs the steps.
        thread: the stepping thread, which is the thread that runs the steps.
        source: the source that decides where a step ends.
        table: the steps, with the columns of `tables.STEPS` and `duration_ns`, sorted by start, without overlap.
    """

    process: int
    thread: int
    source: StepSource
    table: pl.DataFrame

    @property
    def recorded(self) -> pl.DataFrame:
        """Return the recorded steps."""
        return self.table.filter("recorded")


def choose(recording: tables.Recording) -> Steps:
    """Return the steps of a run. Leading calls that do not belong to a step are cut off (`leading`).

    Args:
        recording: the run.
    """
    used = marked(recording)
    if used.source not in TRAINING:
        return used
    spans = stepping(recording.spans, used)
    table = leading.cut(used.table, spans).with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
    return replace(used, table=table)


def stepping(spans: pl.DataFrame, used: Steps, *categories: Category) -> pl.DataFrame:
    """Return the spans of the stepping thread.

    Args:
        spans: table of spans, with the columns of `tables.SPANS`.
        used: the steps in use.
        categories: the categories of the wanted spans; none for all.
    """
    own = spans.filter(pl.col("process") == used.process, pl.col("thread") == used.thread)
    return own.filter(pl.col("category").is_in([int(each) for each in categories])) if categories else own


def every(recording: tables.Recording) -> list[Steps]:
    """Return the steps of each process that has steps. The first process is the one that `choose` takes.

    Args:
        recording: the run.
    """
    first = choose(recording)
    others = recording.steps["process"].unique().sort()
    parts = (
        replace(recording, steps=recording.steps.filter(pl.col("process") == process))
        for process in others
        if process != first.process
    )
    return [first, *(choose(part) for part in parts if part.steps["number"].count())]


def marked(recording: tables.Recording) -> Steps:
    """Return the steps of a run as the job marked them. If the job marked no step, the whole run is step 0.

    The job decided which source of steps counts. If a better source came later, the job continued the numbering. So the
    steps of all sources count, except for revoked guesses (`readers.guesses`). The result names the best source.

    All steps are those of one thread: the thread with the best source. Among several threads with this source, it is
    the thread with the most steps. The source is compared first, because a process that only evaluates may have more
    steps than the process that trains. A step ends at the latest where the next step starts.

    Args:
        recording: the run.
    """
    marks = recording.steps.filter(pl.col("number").is_not_null())
    if marks.is_empty():
        return _whole_run(recording)
    owners = marks.group_by("process", "thread").agg(pl.col("source").min(), pl.len())
    order = ["source", "len", "process", "thread"]
    process, thread, *_ = owners.sort(order, descending=[False, True, False, False]).row(0)
    chosen = marks.filter(pl.col("process") == process, pl.col("thread") == thread).sort("start_ns", "number")
    following = pl.col("start_ns").shift(-1)
    table = chosen.with_columns(end_ns=pl.min_horizontal("end_ns", following)).with_columns(
        duration_ns=pl.col("end_ns") - pl.col("start_ns")
    )
    return Steps(int(process), int(thread), _source(min(table["source"].to_list())), table)


def restrict(steps: Steps, numbers: list[int], directory: str) -> Steps:
    """Return the steps whose number is one of `numbers`.

    Args:
        steps: the steps of a run.
        numbers: the numbers, at least one.
        directory: the directory of the run, for the error.

    Raises:
        UsageError: the run has none of these steps.
    """
    table = steps.table.filter(pl.col("number").is_in(numbers))
    if table.is_empty():
        known = steps.table["number"].to_list()
        has = f"It has {_named(known)}." if known else "It has no steps."
        raise UsageError(f"{directory} has no {_named(numbers)}.", has)
    return replace(steps, table=table)


def _named(numbers: list[int]) -> str:
    return f"steps {min(numbers)} to {max(numbers)}" if len(set(numbers)) > 1 else f"step {min(numbers)}"


def settled(known: pl.DataFrame, disturbed: list[int], source: StepSource) -> list[int]:
    """Return the rows of the steady steps: all steps that are not disturbed, except for the first of them.

    The first step fills caches, queues and pools. It counts as steady only if there are at most `WARMED` steps. If
    every step is disturbed, all steps are treated as if none was. A step that is a call of a network ends with this
    call. So the second step has the rest of the first iteration, for example its backward pass, and is left out, too.

    Args:
        known: the steps, with `row`.
        disturbed: the rows of steps that compiled something, or that ms-profiler interrupted (`phases.interrupted`).
        source: what reported the ends of the steps.
    """
    without = set(disturbed)
    steady = [row for row in known["row"].to_list() if row not in without]
    rows: list[int] = steady or known["row"].to_list()
    first = 2 if source == StepSource.NETWORK_CALL else 1
    return rows[first:] if len(rows) > WARMED else rows


def touches(steps: Steps) -> pl.Expr:
    """Return an expression that tells whether a span overlaps the time from the first to the last step."""
    start, end = (pl.lit(time) for time in (steps.table["start_ns"].min(), steps.table["end_ns"].max()))
    return (pl.col("start_ns") < end) & (pl.col("end_ns") > start)


def statistics(table: pl.DataFrame) -> dict[str, Any]:
    """Return count, median, 95th percentile, mean, minimum and maximum of the steps' durations, in milliseconds.

    The 95th percentile is the smallest duration that at least 95 % of the steps do not exceed (nearest rank). If there
    are no steps, all values except the count are None.

    Args:
        table: rows of `Steps.table`.
    """
    durations = table["duration_ns"]
    if durations.is_empty():
        return {"count": 0, "median_ms": None, "p95_ms": None, "mean_ms": None, "min_ms": None, "max_ms": None}
    rank = -(-95 * len(durations) // 100) - 1
    return {
        "count": len(durations),
        "median_ms": milliseconds(durations.median()),
        "p95_ms": milliseconds(durations.sort()[rank]),
        "mean_ms": milliseconds(durations.mean()),
        "min_ms": milliseconds(durations.min()),
        "max_ms": milliseconds(durations.max()),
    }


def slowest(table: pl.DataFrame, count: int = SLOWEST) -> list[dict[str, Any]]:
    """Return number and duration of the slowest steps, slowest first."""
    rows = table.sort("duration_ns", "number", descending=[True, False]).head(count)
    return [
        {"number": number, "ms": milliseconds(duration)}
        for number, duration in rows.select("number", "duration_ns").iter_rows()
    ]


def milliseconds(nanoseconds: Any) -> float:
    """Return nanoseconds as milliseconds, rounded to the nanosecond."""
    return round(float(nanoseconds) / 1e6, 6)


def _source(number: int) -> StepSource:
    try:
        return StepSource(number)
    except ValueError:
        return StepSource.WHOLE_RUN


def _whole_run(recording: tables.Recording) -> Steps:
    processes = recording.processes.sort(pl.col("role") != "main", "process")
    process, first, last = processes.select("process", "first_ns", "last_ns").row(0)
    threads = recording.threads.filter(pl.col("process") == process)
    # the thread that recorded first started the session; its native id is the pid
    threads = threads.sort(pl.col("native_tid") != process, "thread")
    thread = int(threads["thread"][0]) if threads.height else 0
    row = {
        "process": process,
        "thread": thread,
        "number": 0,
        "start_ns": first,
        "end_ns": last,
        "source": StepSource.WHOLE_RUN,
        "recorded": True,
        "content": tables.ALL_OF_IT,
        "stretch": 0,
    }
    table = pl.DataFrame([row], schema=tables.STEPS).with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
    return Steps(int(process), thread, StepSource.WHOLE_RUN, table)
