"""Group and bytes of the exchanges that PyTorch makes in C++, on threads of gloo: those of DistributedDataParallel.

gloo reports only the operation of an exchange. The exchanges that the script called are paired with their calls. The
remaining all-reduces of a backward pass are the buckets of the module, in their order, if their number is that of the
buckets. The job noted the bytes of the buckets (`job.frameworks.torch.replicas`). Exchanges get no bytes where others
may be among them: with several modules with buckets, an all-reduce of the script in the same pass, or a hook of the
script in place of the all-reduce.
"""

import re
from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category
from ms_profiler.store.names import BUCKETS

#: prefix of the names that gloo gives the operations in its own threads
GLOO: Final = "gloo:"
#: operation that gloo lacks -> the one by which it makes it
_INSTEAD: Final = {"reducescatter": "allreduce"}
#: exchanges of gloo's threads: `kind` is the operation in lower case without underscores
BESIDE: Final = pl.Schema({"kind": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64})
#: operations whose group and bytes are known
KNOWN: Final = pl.Schema({"place": pl.Int64, "group": pl.String, "bytes": pl.Int64})
_KIND: Final = "allreduce"
_NOTE: Final = re.compile(
    rf"{BUCKETS}(?P<iteration>\d+);(?P<rebuilt>[01]);(?P<sizes>[\d,*]+);(?P<used>\d+);(?P<hook>[^;]*);"
    r"(?P<group>[^;]*);(?P<module>.*)",
    re.DOTALL,
)


@dataclass(frozen=True)
class _Buckets:
    """The job's note about the buckets of a module at one moment, see `store.names.BUCKETS`."""

    time_ns: int
    iteration: int
    rebuilt: bool
    sizes: tuple[int, ...]
    used: int
    hook: str
    group: str
    module: str


def beside(recording: tables.Recording, steps: Steps) -> pl.DataFrame:
    """Return the exchanges that gloo ran in its own threads for the stepping process, as `BESIDE`, by start.

    Args:
        recording: the run.
        steps: the steps in use.
    """
    rows = recording.names.str.starts_with(GLOO).fill_null(False).arg_true()
    own = recording.spans.filter(
        pl.col("process") == steps.process,
        pl.col("category") == Category.COMMUNICATION,
        pl.col("name").is_in(rows.implode()),
    )
    names = recording.names.gather(own["name"]).str.strip_prefix(GLOO).str.replace_all("_", "")
    return own.select(names.alias("kind"), *intervals.BOUNDS).sort(*intervals.BOUNDS).cast(BESIDE)


def paired(called: pl.DataFrame, ran: pl.DataFrame, steps: Steps) -> list[list[int]]:
    """Return for each call of the script the rows of gloo's exchanges for it.

    gloo runs the calls of a group in their order, so a call belongs to gloo's first exchange of its operation that
    begins later, and to all that lie inside of the call. In steps that were not sampled gloo's exchanges are unknown.

    Args:
        called: `operation`, `start_ns`, `end_ns`, by start.
        ran: `BESIDE`.
        steps: the steps in use.
    """
    kinds: dict[str, list[tuple[int, int, int]]] = {}
    for row, (kind, start, end) in enumerate(ran.iter_rows()):
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
    """Return the end of each call of the script, or of the last exchange of gloo for it, whichever is later.

    Args:
        called: the calls, with `end_ns`.
        ran: `BESIDE`.
        pairs: the result of `paired`.
    """
    last = ran["end_ns"].to_list()
    found = [max([end, *(last[row] for row in rows)]) for end, rows in zip(called["end_ns"], pairs, strict=True)]
    return pl.Series("end_ns", found, dtype=pl.Int64)


def known(
    recording: tables.Recording, steps: Steps, called: pl.DataFrame, ran: pl.DataFrame, pairs: list[list[int]]
) -> pl.DataFrame:
    """Return `KNOWN`: the rows of `ran` that are buckets of DistributedDataParallel, with their group and bytes.

    Args:
        recording: the run; its instants have the buckets.
        steps: the steps in use.
        called: the calls of the script, `operation`, `start_ns`, `end_ns`, by start.
        ran: `BESIDE`.
        pairs: the result of `paired`.
    """
    notes = _notes(recording, steps)
    none = pl.DataFrame(schema=KNOWN)
    if len({note.module for note in notes}) != 1 or any(note.hook for note in notes):
        return none
    taken = {row for rows in pairs for row in rows}
    passes = intervals.union(
        recording.spans.filter(
            pl.col("process") == steps.process,
            pl.col("thread") == steps.thread,
            pl.col("category") == Category.BACKWARD,
        )
    )
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


def _notes(recording: tables.Recording, steps: Steps) -> list[_Buckets]:
    """Return the job's notes about buckets, by time."""
    told = recording.instants.filter(
        pl.col("process") == steps.process, pl.col("category") == Category.COMMUNICATION
    ).sort("time_ns")
    found = []
    for text, time in zip(recording.names.gather(told["name"]), told["time_ns"], strict=True):
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
    """Return the buckets that a backward pass used; None where that is not certain.

    The logger reports an iteration when the one after the next begins. So a note with 0 iterations after a backward
    pass shows that this was the first pass, which used the first buckets. All later passes use the last buckets.

    Args:
        notes: the notes by time.
        begin_ns: when the pass began.
        first: whether no pass before it exchanged buckets.
    """
    last = notes[-1]
    after = next((note for note in notes if note.time_ns >= begin_ns), None)
    initially = after is not None and after.iteration == 0
    if after is notes[0] and not initially:
        return None  # it may be the first pass
    if not last.rebuilt:
        # the buckets may have been made again after the last note, unless that is too late for them
        return last if last.iteration >= 2 or last.used or (initially and first) else None
    if initially:
        return after if first else None
    return last
