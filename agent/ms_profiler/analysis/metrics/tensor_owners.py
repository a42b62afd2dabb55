"""Find what each memory block of the host's allocator is for: its operator, phase, module, and kind of tensor.

The job noted the addresses of parameters, gradients and optimizer states, so the kinds of these blocks are known. The
kind of any other block depends on the phase in which the block was allocated:

- forward: an activation.
- backward: a gradient if the block is still in use at the end of the pass, otherwise a temporary.
- optimizer: optimizer state if the block is still in use at the end of the optimizer's step, otherwise a temporary.
- data: an input.
"""

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, phases
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import tensor_places
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from ms_profiler.store.names import GRADIENT, STATE

#: kinds of blocks, besides the kinds that the job notes
ACTIVATION: Final = "activations"
TEMPORARY: Final = "temporaries"
INPUT: Final = "inputs"
OTHER: Final = "other"
#: columns that are added to `tables.BLOCKS`
OWNED: Final = pl.Schema({"operator": pl.String, "phase": pl.String, "module": pl.String, "kind": pl.String})
#: operators that only allocate, fill or copy memory for another operator: their blocks belong to the operator that
#: called them
_EMPTY: Final = r"^aten::(new_)?(empty|resize_|set_|clone|zeros|zero_|_to_copy|to|contiguous)(_\w+)?$"
#: an inner module is named instead of its outer module if the inner module has more than this share of the bytes
MOST_OF: Final = 0.5


@dataclass(frozen=True)
class Peak:
    """The moment at which most memory was in use.

    Attributes:
        time_ns: the time of this moment.
        allocated: bytes in use.
        step: number of the step at this moment; None outside of all steps.
        owners: all bytes in use, by kind and module: `kind`, `module`, `bytes`, the largest first.
        operators: the bytes of those blocks that were recorded one by one: `kind`, `operator`, `bytes`, the largest
            first.
    """

    time_ns: int
    allocated: int
    step: int | None
    owners: pl.DataFrame
    operators: pl.DataFrame

    @property
    def kinds(self) -> pl.DataFrame:
        """Return the bytes of each kind: `kind`, `bytes`, the largest first."""
        return self.owners.group_by("kind").agg(pl.col("bytes").sum()).sort("bytes", "kind", descending=[True, False])

    @property
    def largest(self) -> tuple[str, str | None, str | None, int] | None:
        """Return the kind with most bytes, the module or operator with most of them, and the bytes; None if unknown.

        - (kind, module, None, bytes): the innermost module that holds most bytes of this kind.
        - (kind, None, operator, bytes): the operator that allocated most bytes of this kind, if no module holds most of
          them.
        - (kind, None, None, bytes): all bytes of this kind, if neither a module nor an operator has most of them.
        """
        kinds = self.kinds
        if kinds.is_empty():
            return None
        kind, total = kinds.row(0)
        own = self.owners.filter(pl.col("kind") == kind).drop_nulls("module")
        sums: dict[str, int] = {}
        for module, size in own.select("module", "bytes").iter_rows():
            parts = module.split(".")
            for depth in range(len(parts)):
                path = ".".join(parts[: depth + 1])
                sums[path] = sums.get(path, 0) + size
        place, held = None, total
        for path in sorted(sums, key=lambda path: (path.count("."), path)):
            inside = place is None or path.startswith(f"{place}.")
            if inside and sums[path] > MOST_OF * held:
                place, held = path, sums[path]
        by_operator = self.operators.filter(pl.col("kind") == kind).drop_nulls("operator")
        if place is None and by_operator.height and by_operator["bytes"][0] > MOST_OF * total:
            return kind, None, by_operator["operator"][0], by_operator["bytes"][0]
        return kind, place, None, held


def owned(
    recording: tables.Recording, used: Steps, spans: pl.DataFrame, pieces: pl.DataFrame, found: Ownership | None
) -> pl.DataFrame:
    """Return the memory blocks of the stepping process with their owners: columns of `tables.BLOCKS` and `OWNED`.

    Args:
        recording: the run.
        used: the steps in use.
        spans: the spans of the recording, with the columns of `tables.SPANS`.
        pieces: the steps cut into phases, from `phases.pieces`.
        found: the modules that own the steps' time; None if no module is known.
    """
    blocks = recording.blocks.filter(pl.col("process") == used.process)
    if blocks.is_empty():
        return blocks.with_columns(pl.Series(name, [], dtype) for name, dtype in OWNED.items())
    cut = pieces.sort("start_ns")
    # phases and modules are those of the stepping thread
    others = blocks["thread"].is_in([] if found is None else list(found.others)).fill_null(False)
    times = blocks["allocated_ns"].zip_with(~others, pl.Series([None], dtype=pl.Int64))
    phase = cut["phase"].gather(intervals.locate(times, cut))
    module = pl.Series([None] * blocks.height, dtype=pl.String)
    if found is not None and found.basis == "host":
        known = found.pieces.sort("start_ns")
        module = known["owner"].gather(intervals.locate(times, known))
    placed = _placed(recording, used.process, blocks)
    kind = _by_moment(blocks.with_columns(phase=phase), spans, used)
    return blocks.with_columns(
        operators(blocks, spans, recording.names).alias("operator"),
        phase.alias("phase"),
        module=pl.select(pl.when(placed["kind"].is_null()).then(module).otherwise(placed["module"])).to_series(),
        kind=pl.select(pl.coalesce(placed["kind"], kind)).to_series(),
    )


def operators(blocks: pl.DataFrame, spans: pl.DataFrame, names: pl.Series) -> pl.Series:
    """Return the name of the operator that allocated each block; null outside of all operators.

    Operators in `_EMPTY`, which only allocate, fill or copy memory, are skipped: the result is the innermost other
    operator around the allocation. If all operators around the allocation are in `_EMPTY`, the outermost one is
    returned.

    Args:
        blocks: table of blocks, with the columns of `tables.BLOCKS`.
        spans: table of spans, with the columns of `tables.SPANS`.
        names: the names of the recording.
    """
    rows = spans.select("process", "thread", "start_ns", "category").with_row_index("span")
    rows = rows.filter(pl.col("category") == Category.OP).sort("start_ns")
    wanted = blocks.select("process", "thread", "allocated_ns").with_row_index("block").drop_nulls()
    joined = wanted.sort("allocated_ns").join_asof(
        rows, left_on="allocated_ns", right_on="start_ns", by=["process", "thread"], check_sortedness=False
    )
    place, times = joined["span"], joined["allocated_ns"]
    ends, parents, texts = spans["end_ns"], spans["parent"], names.gather(spans["name"])
    plain = texts.str.contains(_EMPTY)
    while True:  # go outwards to the innermost operator that had not ended
        ended = (ends.gather(place) <= times).fill_null(False)
        if not ended.any():
            break
        place = pl.select(pl.when(ended).then(parents.gather(place)).otherwise(place)).to_series()
    while True:  # go outwards to the operator that needed the memory
        around = parents.gather(place)
        outer = (plain.gather(place) & around.is_not_null()).fill_null(False)
        if not outer.any():
            break
        place = pl.select(pl.when(outer).then(around).otherwise(place)).to_series()
    found = joined.select("block", operator=texts.gather(place))
    return blocks.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("block")).join(
        found, on="block", how="left", maintain_order="left"
    )["operator"]


def _placed(recording: tables.Recording, process: int, blocks: pl.DataFrame) -> pl.DataFrame:
    """Return kind and module of the blocks whose tensors the job noted; null for other blocks."""
    folder = layout.process_dir(recording.directory, process)
    places = tensor_places.read(folder, recording.clock, recording.counts)
    rows = blocks.select("address", "size", "allocated_ns", "released_ns").with_row_index("block")
    parts = []
    for (time_ns,), tensors in places.group_by("time_ns", maintain_order=True):
        alive = rows.filter(_alive(int(str(time_ns)))).sort("address")
        inside = tensors.sort("address").join_asof(
            alive.select("block", "size", start="address"), left_on="address", right_on="start"
        )
        parts.append(inside.filter(pl.col("address") < pl.col("start") + pl.col("size")))
    if not parts:
        nothing = pl.Series([None] * blocks.height, dtype=pl.String)
        return pl.DataFrame({"kind": nothing, "module": nothing})
    # the first note counts: a gradient can have the address of a parameter's block only after the block was released
    found = pl.concat(parts).unique("block", keep="first", maintain_order=True).select("block", "kind", "module")
    return rows.select("block").join(found, on="block", how="left", maintain_order="left").drop("block")


def _alive(time_ns: int) -> pl.Expr:
    taken = pl.col("allocated_ns").is_null() | (pl.col("allocated_ns") <= time_ns)
    return taken & (pl.col("released_ns").is_null() | (pl.col("released_ns") > time_ns))


def _by_moment(blocks: pl.DataFrame, spans: pl.DataFrame, used: Steps) -> pl.Series:
    """Return the kinds of blocks, derived from the phases in which they were allocated.

    Args:
        blocks: table of blocks, with the columns of `tables.BLOCKS` and `phase`.
        spans: the spans of the recording.
        used: the steps in use.
    """
    own = stepping(spans, used)

    def outlives(category: Category) -> pl.Series:
        passes = intervals.union(own.filter(pl.col("category") == int(category)))
        ends = passes["end_ns"].gather(intervals.locate(blocks["allocated_ns"], passes))
        return (blocks["released_ns"].is_null() | (blocks["released_ns"] > ends)).fill_null(False)

    phase = pl.col("phase")
    return blocks.select(
        pl.when(phase == phases.FORWARD)
        .then(pl.lit(ACTIVATION))
        .when(phase == phases.NAMES[Category.BACKWARD])
        .then(pl.lit(outlives(Category.BACKWARD)).replace_strict({True: GRADIENT, False: TEMPORARY}))
        .when(phase == phases.NAMES[Category.OPTIMIZER])
        .then(pl.lit(outlives(Category.OPTIMIZER)).replace_strict({True: STATE, False: TEMPORARY}))
        .when(phase == phases.NAMES[Category.DATA])
        .then(pl.lit(INPUT))
        .otherwise(pl.lit(OTHER))
        .alias("kind")
    )["kind"]


def peak(held: pl.DataFrame, blocks: pl.DataFrame, used: Steps) -> Peak | None:
    """Return the moment at which most memory was in use, in the steps with all records; None if unknown.

    Args:
        held: the memory of the stepping process over time, with the columns of `tables.MEMORY`.
        blocks: the memory blocks with their owners, from `owned`.
        used: the steps in use.
    """
    rows = held.filter(pl.col("process") == used.process)
    rows = rows.with_columns(row=intervals.locate(rows["time_ns"], used.table))
    whole = used.table["content"] == tables.ALL_OF_IT
    inside = rows.filter(whole.gather(rows["row"]).fill_null(False))
    if inside.is_empty() or blocks.is_empty():
        return None
    top: dict[str, Any] = inside.row(inside["allocated"].arg_max() or 0, named=True)
    alive = blocks.filter(_alive(top["time_ns"]))
    operators = alive.group_by("kind", "operator").agg(pl.col("size").sum().alias("bytes"))
    operators = operators.sort("bytes", "kind", "operator", descending=[True, False, False])
    owners = alive.group_by("kind", "module").agg(pl.col("size").sum().alias("bytes"))
    rest = max(top["allocated"] - int(owners["bytes"].sum()), 0)
    others = pl.DataFrame({"kind": [OTHER], "module": [None], "bytes": [rest]}, schema=owners.schema)
    owners = pl.concat([owners, others]).group_by("kind", "module").agg(pl.col("bytes").sum())
    ordered = owners.filter(pl.col("bytes") > 0).sort("bytes", "kind", "module", descending=[True, False, False])
    return Peak(top["time_ns"], top["allocated"], int(used.table["number"][top["row"]]), ordered, operators)


def allocations(blocks: pl.DataFrame) -> pl.DataFrame:
    """Return the blocks that were allocated during the recording, with the columns of `tables.ALLOCATIONS`.

    Args:
        blocks: the memory blocks with their owners, from `owned`.
    """
    duration = pl.col("released_ns") - pl.col("allocated_ns")
    nothing = pl.lit(None, pl.Int64)
    return (
        blocks.drop_nulls("allocated_ns")
        .select(
            pl.col("operator").fill_null("unknown").alias("name"),
            "size",
            "allocated_ns",
            "released_ns",
            pl.col("released_ns").alias("inactive_ns"),
            duration.alias("duration_ns"),
            duration.alias("active_ns"),
            "allocation_allocated",
            nothing.alias("allocation_reserved"),
            pl.col("allocation_allocated").alias("allocation_active"),
            "release_allocated",
            nothing.alias("release_reserved"),
            pl.col("release_allocated").alias("release_active"),
            nothing.alias("stream"),
        )
        .cast(tables.ALLOCATIONS)
    )
