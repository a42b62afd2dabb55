"""Find group and bytes of the exchanges that PyTorch makes in C++ for DistributedDataParallel.

DistributedDataParallel exchanges gradients in buckets, with one all-reduce for each bucket. But gloo's threads and
NCCL's kernels report only the operation of an exchange. Group and bytes are found in two steps:

- Each exchange of gloo that the script called is paired with the script's call.
- If a backward pass has as many other all-reduces as the module has buckets, each of these all-reduces belongs to one
  bucket, in the order of the buckets. The job noted the bytes of the buckets (`job.frameworks.torch.replicas`).

The exchanges of a pass get no bytes if other exchanges may be among them: if several modules have buckets, if the
script calls an all-reduce in the same pass, or if a hook of the script replaces the all-reduce.
"""

import re
from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import device_waits, intervals
from ms_profiler.analysis.metrics.handed_over import PASSED
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category
from ms_profiler.store.names import BUCKETS

#: prefix of the names that gloo gives the operations in its own threads
GLOO: Final = "gloo:"
#: pattern of the names of NCCL's kernels; it captures the operation
NCCL: Final = r"^nccl(?:Dev)?Kernel_([A-Za-z]+)"
#: operation that gloo lacks -> operation that gloo runs in its place
_INSTEAD: Final = {"reducescatter": "allreduce"}
#: exchanges of gloo's threads: `kind` is the operation in lower case without underscores
BESIDE: Final = pl.Schema({"kind": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64, "thread": pl.UInt32})
#: exchanges whose group and bytes are known; `place` is the row of the table of exchanges
KNOWN: Final = pl.Schema({"place": pl.Int64, "group": pl.String, "bytes": pl.Int64})
_KIND: Final = "allreduce"
_NOTE: Final = re.compile(
    rf"{BUCKETS}(?P<iteration>\d+);(?P<rebuilt>[01]);(?P<sizes>[\d,*]+);(?P<used>\d+);(?P<hook>[^;]*);"
    r"(?P<group>[^;]*);(?P<module>.*)",
    re.DOTALL,
)


@dataclass(frozen=True)
class _Buckets:
    """What the job noted about the buckets of a module at one moment, under the name `store.names.BUCKETS`."""

    time_ns: int
    iteration: int
    rebuilt: bool
    sizes: tuple[int, ...]
    used: int
    hook: str
    group: str
    module: str


def beside(recording: tables.Recording, steps: Steps) -> pl.DataFrame:
    """Return the exchanges that gloo ran in its own threads for the stepping process, as `BESIDE`, sorted by start.

    Args:
        recording: the run.
        steps: the steps in use.
    """
    return _named(recording, steps, GLOO, Category.COMMUNICATION)


def of_gloo(recording: tables.Recording, waits: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table of waits for a device whose `thread` ran exchanges of gloo."""
    own = recording.spans.filter(_begins(recording, GLOO, Category.COMMUNICATION))
    return waits.filter(pl.col("thread").is_in(own["thread"].unique().implode()))


def _begins(recording: tables.Recording, prefix: str, category: Category) -> pl.Expr:
    """Return whether spans have a category and a name that begins with a prefix."""
    rows = recording.names.str.starts_with(prefix).fill_null(False).arg_true()
    return (pl.col("category") == int(category)) & pl.col("name").is_in(rows.implode())


def _named(recording: tables.Recording, steps: Steps, prefix: str, category: Category) -> pl.DataFrame:
    """Return the spans of the stepping process whose names begin with a prefix, as `BESIDE`, sorted by start."""
    own = recording.spans.filter(pl.col("process") == steps.process, _begins(recording, prefix, category))
    names = recording.names.gather(own["name"]).str.strip_prefix(prefix).str.replace_all("_", "")
    return own.select(names.alias("kind"), *intervals.BOUNDS, "thread").sort(*intervals.BOUNDS).cast(BESIDE)


def awaited(recording: tables.Recording, steps: Steps, ran: pl.DataFrame) -> pl.DataFrame:
    """Return when the rank was ready for each exchange of gloo, `start_ns`, and when it left the exchange, `end_ns`.

    The rank is ready when an operator hands the exchange to gloo. The exchange then waits in gloo's queue while gloo's
    threads wait for other ranks. Within a step, operator n of a kind hands over exchange n of this kind. If a step has
    more or fewer operators than exchanges, `start_ns` is the begin of the exchange.

    gloo exchanges copies in the host's memory. So for data on a device, gloo's thread first waits for the device, which
    may compute the data until then. The rank is ready when this wait ends.

    A backward pass ends when the rank has left all exchanges of the pass. But gloo's threads may record the end of an
    exchange later, in the next step. So `end_ns` is limited to the end of the pass.

    Args:
        recording: the run, with its operators.
        steps: the steps in use.
        ran: the exchanges that gloo ran, with the columns of `BESIDE`.
    """
    passed = _named(recording, steps, PASSED, Category.OP).select("kind", pl.col("start_ns").alias("passed_ns"))
    numbered = []
    for table, time in ((passed, "passed_ns"), (ran, "start_ns")):
        step = intervals.locate(table[time], steps.table).alias("row")
        numbered.append(
            table.with_columns(step).with_columns(
                place=pl.int_range(pl.len()).over("kind", "row"), count=pl.len().over("kind", "row")
            )
        )
    both = numbered[1].join(
        numbered[0], on=["kind", "row", "place", "count"], how="left", nulls_equal=True, maintain_order="left"
    )
    computed = _computed(recording, ran)
    begins = both.select(pl.max_horizontal(pl.min_horizontal("passed_ns", "start_ns"), computed)).to_series()
    passes = _passes(recording, steps)
    over = passes["end_ns"].gather(intervals.locate(begins, passes))
    return both.select(begins.alias("start_ns"), pl.min_horizontal("end_ns", over.alias("over_ns")).alias("end_ns"))


def _computed(recording: tables.Recording, ran: pl.DataFrame) -> pl.Series:
    """Return for each exchange of gloo when the wait for the device in it ended, in ns; null without such a wait."""
    device = recording.device
    waits = None if device is None else device.waits if device.whole is None else device.whole.waits
    if waits is None or waits.is_empty() or ran.is_empty():
        return pl.Series([None] * ran.height, dtype=pl.Int64)
    waits = waits.drop_nulls("thread").filter(pl.col("name").is_in(device_waits.ON_HOST))
    waits = waits.select("thread", "start_ns", pl.col("end_ns").alias("over_ns"))
    around = ran.with_row_index("row").select("row", "thread", "start_ns", "end_ns").sort("start_ns")
    inside = (
        waits.sort("start_ns")
        .join_asof(around, on="start_ns", by="thread", strategy="backward", check_sortedness=False)
        .filter(pl.col("over_ns") <= pl.col("end_ns"))
        .group_by("row")
        .agg(pl.col("over_ns").max())
    )
    rows = pl.DataFrame({"row": pl.int_range(ran.height, dtype=pl.UInt32, eager=True)})
    return rows.join(inside, on="row", how="left", maintain_order="left")["over_ns"]


def paired(called: pl.DataFrame, ran: pl.DataFrame, steps: Steps) -> list[list[int]]:
    """Return, for each call of the script, the rows of gloo's exchanges for this call.

    gloo runs the calls of a group in their order. So the first exchange of a call is gloo's next exchange of the same
    operation that begins after the call has begun. All following exchanges of this operation that end before the call
    ends belong to the call, too. In steps that were not sampled, gloo's exchanges are unknown.

    Args:
        called: the calls of the script: `operation`, `start_ns`, `end_ns`, sorted by start.
        ran: the exchanges that gloo ran, with the columns of `BESIDE`.
        steps: the steps in use.
    """
    kinds: dict[str, list[tuple[int, int, int]]] = {}
    for row, (kind, start, end, _) in enumerate(ran.iter_rows()):
        kinds.setdefault(kind, []).append((start, end, row))
    places = dict.fromkeys(kinds, 0)
    found: list[list[int]] = []
    contents = steps.table["content"].gather(intervals.locate(called["start_ns"], steps.table))
    rows_of = called.select("operation", *intervals.BOUNDS).iter_rows()
    for (operation, begin, finish), content in zip(rows_of, contents, strict=True):
        if content == tables.COARSE:
            found.append([])
            continue
        kind = operation.lower()
        kind = kind if kind in kinds else _INSTEAD.get(kind, kind)
        own, place = kinds.get(kind, []), places.get(kind, 0)
        while place < len(own) and own[place][0] < begin:
            place += 1
        rows: list[int] = []
        while place < len(own) and (not rows or own[place][1] <= finish):
            rows.append(own[place][2])
            place += 1
        places[kind] = place
        found.append(rows)
    return found


def ends(called: pl.DataFrame, ran: pl.DataFrame, pairs: list[list[int]]) -> pl.Series:
    """Return the end of each call of the script. If gloo's last exchange for the call ends later, return that end.

    Args:
        called: the calls, with `end_ns`.
        ran: the exchanges that gloo ran, with the columns of `BESIDE`.
        pairs: for each call, the rows of gloo's exchanges for the call, from `paired`.
    """
    last = ran["end_ns"].to_list()
    found = [max([end, *(last[row] for row in rows)]) for end, rows in zip(called["end_ns"], pairs, strict=True)]
    return pl.Series("end_ns", found, dtype=pl.Int64)


def known(
    recording: tables.Recording, steps: Steps, called: pl.DataFrame, ran: pl.DataFrame, pairs: list[list[int]]
) -> pl.DataFrame:
    """Return the rows of `ran` that exchange buckets of DistributedDataParallel, with the columns of `KNOWN`.

    Args:
        recording: the run; its instants contain the job's notes about buckets.
        steps: the steps in use.
        called: the calls of the script, `operation`, `start_ns`, `end_ns`, sorted by start.
        ran: the exchanges that gloo ran, with the columns of `BESIDE`.
        pairs: for each call, the rows of gloo's exchanges for the call, from `paired`.
    """
    notes = _notes(recording, steps)
    none = pl.DataFrame(schema=KNOWN)
    if len({note.module for note in notes}) != 1 or any(note.hook for note in notes):
        return none
    taken = {row for rows in pairs for row in rows}
    passes = _passes(recording, steps)
    reduces = ran.with_row_index("row").filter(pl.col("kind") == _KIND)
    reduces = reduces.with_columns(passed=intervals.locate(reduces["start_ns"], passes))
    mine = called.filter(pl.col("operation").str.to_lowercase().is_in([_KIND, *_INSTEAD]))
    mixed = set(intervals.locate(mine["start_ns"], passes).drop_nulls().to_list())
    rows: list[tuple[int, str, int]] = []
    first = True
    for (place,), group in reduces.drop_nulls("passed").group_by("passed", maintain_order=True):
        own = [row for row in group["row"].to_list() if row not in taken]
        note = _valid(notes, int(passes["start_ns"][int(str(place))]), first)
        if note is None or not own or place in mixed:
            continue
        first = False
        sizes = [*note.sizes, note.used] if note.used else list(note.sizes)
        if len(own) == len(sizes):
            rows += [(row, note.group, size) for row, size in zip(own, sizes, strict=True)]
    return pl.DataFrame(rows, KNOWN, orient="row") if rows else none


def on_device(recording: tables.Recording, steps: Steps, called: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels of NCCL that exchange buckets of DistributedDataParallel, with the columns of `KNOWN`.

    The host launches these kernels in a backward pass, in the order of the buckets. A kernel gets no bytes if its
    launch is unknown, or if the device's interface reported its bytes.

    Args:
        recording: the run; `place` in the result is a row of its device's tasks.
        steps: the steps in use.
        called: the calls of the script, `operation`, `start_ns`, `end_ns`, sorted by start.
    """
    device = recording.device
    if device is None:
        return pl.DataFrame(schema=KNOWN)
    reported = pl.lit(None) if device.launches is None else device.launches["bytes"]
    reduces = (
        device.tasks.with_row_index("task")
        .with_columns(reported=reported)
        .filter(pl.col("exchange"), pl.col("launch_ns").is_not_null(), pl.col("reported").is_null())
        # names are examined last, because this is slow, and only few of a device's millions of tasks exchange data
        .with_columns(kind=pl.col("name").str.extract(NCCL).str.to_lowercase())
        .filter(pl.col("kind") == _KIND)
        .sort("launch_ns", "start_ns")
    )
    ran = reduces.select("kind", pl.col("launch_ns").alias("start_ns"), "end_ns", thread=None).cast(BESIDE)
    found = known(recording, steps, called, ran, [])
    return found.with_columns(reduces["task"].gather(found["place"]).alias("place")).cast(KNOWN)


def _passes(recording: tables.Recording, steps: Steps) -> pl.DataFrame:
    """Return the backward passes of the stepping thread."""
    return intervals.union(stepping(recording.spans, steps, Category.BACKWARD))


def _notes(recording: tables.Recording, steps: Steps) -> list[_Buckets]:
    """Return the job's notes about the buckets of DistributedDataParallel, sorted by time."""
    marks = recording.instants.filter(
        pl.col("process") == steps.process, pl.col("category") == Category.COMMUNICATION
    ).sort("time_ns")
    found = []
    for text, time in zip(recording.names.gather(marks["name"]), marks["time_ns"], strict=True):
        if match := _NOTE.fullmatch(text):
            sizes: list[int] = []
            for part in match["sizes"].split(","):
                size, _, count = part.partition("*")
                sizes += [int(size)] * int(count or 1)
            found.append(
                _Buckets(
                    time,
                    int(match["iteration"]),
                    match["rebuilt"] == "1",
                    tuple(sizes),
                    int(match["used"]),
                    match["hook"],
                    match["group"],
                    match["module"],
                )
            )
    return found


def _valid(notes: list[_Buckets], begin_ns: int, first: bool) -> _Buckets | None:
    """Return the buckets that a backward pass used; None if they are not certain.

    DistributedDataParallel remakes the buckets in an early iteration. Its logger is late: it reports an iteration only
    when the second iteration after it begins. So if the next note after a pass counts 0 iterations, the pass was the
    first pass, and used the first buckets. All later passes use the buckets of the last note.

    Args:
        notes: the notes about buckets, sorted by time.
        begin_ns: when the pass began, in ns.
        first: whether no earlier pass exchanged buckets.
    """
    last = notes[-1]
    after = next((note for note in notes if note.time_ns >= begin_ns), None)
    initially = after is not None and after.iteration == 0
    if after is notes[0] and not initially:
        return None  # this pass may be the first one
    if not last.rebuilt:
        # if the last note was made early, it may be older than the new buckets
        return last if last.iteration >= 2 or last.used or (initially and first) else None
    if initially:
        return after if first else None
    return last
