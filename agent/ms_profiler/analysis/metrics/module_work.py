"""Floating-point operations of modules in a step, for forward and backward passes."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import flops, intervals, module_tree, operands
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.kernel_stream import Stream
from ms_profiler.store.format import Category

#: floating-point operations of a module in a step, inner modules included; null if unknown
WORK: Final = pl.Schema({"module": pl.String, "forward_flops": pl.Float64, "backward_flops": pl.Float64})
NO_SHAPES: Final = "no step has the shapes of all its operators; the option `record_shapes` records them"
OF_DEVICE: Final = "the tasks of a device have no shapes that determine their operations"
UNDECIDED: Final = "shapes do not determine the operations of"
UNBOUND: Final = "kernels with an unknown module may belong to them:"
#: largest number of names in a reason
MOST: Final = 3
_BACKWARD: Final = pl.col("part").is_in([int(Part.BACKWARD), int(Part.RECOMPUTE)])
#: a pass of a module: whether it is the backward pass
_PASSES: Final = pl.Schema({"owner": pl.String, "back": pl.Boolean})
#: counted operations: `step`, `owner`, `part`, `name`, `flops`
_COUNTED: Final = pl.Schema(
    {"step": pl.UInt32, "owner": pl.String, "part": pl.UInt8, "name": pl.String, "flops": pl.Int64}
)


def work(
    found: Ownership, recording: tables.Recording, used: Steps, steady: pl.DataFrame, stream: Stream
) -> tuple[pl.DataFrame, str]:
    """Return the FLOPs of each module in a step, as `WORK`, and the reasons for unknown values.

    flops of a module = sum over the operators or kernels in it / number of steps whose operations are known.
    The rows are in the order of the tree.

    Args:
        found: the modules of the run with their times, from `ownership.ownership`.
        recording: the run.
        used: the steps in use.
        steady: the steady steps: rows of the table of `used`, with their `row`.
        stream: the kernels.
    """
    modules = found.tree["module"].to_list()
    unknown = pl.DataFrame({"module": modules}, schema={"module": pl.String}).with_columns(
        pl.lit(None, pl.Float64).alias(name) for name in WORK.names()[1:]
    )
    if recording.device is not None:
        return unknown, OF_DEVICE
    unbound, loose = pl.DataFrame(schema=_PASSES), list[str]()
    if found.basis == "kernels":
        counted, steps = _kernels(found, steady, stream)
        unbound, loose = _unbound(found, counted)
        counted = counted.drop_nulls("owner")
    else:
        counted, steps = _operators(found, recording, used)
    if not steps:
        return unknown, NO_SHAPES
    counted = counted.filter(pl.col("part") != int(Part.OPTIMIZER)).drop_nulls("owner")
    sums = counted.group_by("owner", back=_BACKWARD).agg(
        pl.col("flops").sum() / steps, pl.col("flops").is_null().any().alias("missing")
    )
    known = {(owner, back): None if missing else total for owner, back, total, missing in sums.iter_rows()}
    known |= dict.fromkeys(unbound.iter_rows())
    passes = dict(found.tree.select("module", module_tree.COMPUTES).iter_rows())
    within: dict[tuple[str, bool], float | None] = {}
    for (owner, back), total in known.items():
        parts = owner.split(".")
        for depth in range(len(parts)):
            key = ".".join(parts[: depth + 1]), back
            before = within.get(key, 0.0)
            within[key] = None if before is None or total is None else before + total
    rows = [
        (module, *((within.get((module, back), 0.0) if passes[module] else None) for back in (False, True)))
        for module in modules
    ]
    names = counted.filter(pl.col("flops").is_null())["name"].unique().sort().to_list()
    why = [_reason(text, kernels) for text, kernels in ((UNDECIDED, names), (UNBOUND, loose)) if kernels]
    return pl.DataFrame(rows, schema=WORK, orient="row"), "; ".join(why)


def _reason(text: str, names: list[str]) -> str:
    more = f" and {len(names) - MOST} others" if len(names) > MOST else ""
    return f"{text} {', '.join(names[:MOST])}{more}"


def _operators(found: Ownership, recording: tables.Recording, used: Steps) -> tuple[pl.DataFrame, int]:
    """Return the FLOPs of PyTorch's operators, as `_COUNTED`, and the number of steps that they cover."""
    spans, names = recording.spans, recording.names
    table = used.table.with_row_index("row").filter("recorded")
    own = spans.with_row_index("id").filter(pl.col("process") == used.process, ~pl.col("thread").is_in(found.others))
    own = own.with_columns(intervals.locate(own["start_ns"], table).alias("place")).drop_nulls("place")
    own = own.with_columns(operands.shapes(own), names.gather(own["name"]).alias("text"))
    shaped = own.filter(operands.SHAPED)["place"].unique()
    here = own.filter(pl.col("place").is_in(shaped.implode()))
    operators = here.filter(pl.col("category") == int(Category.OP))
    texts = operators["text"].unique()
    counting = texts.filter(pl.Series([flops.counted(text) for text in texts], dtype=pl.Boolean))
    chosen = operators.filter(pl.col("text").is_in(counting.implode()))
    chosen = chosen.filter(~_inside(chosen, spans))
    whole = chosen.group_by("place").agg(pl.col("shapes").is_not_null().all())
    cut = whole.filter(~pl.col("shapes"))["place"]
    chosen = chosen.filter(~pl.col("place").is_in(cut.implode()))
    steps = shaped.filter(~shaped.is_in(cut.implode()))
    kinds = chosen.select("text", names.gather(chosen["shapes"]).alias("sizes"))
    counts = flops.of_operators(kinds.unique().sort("text", "sizes").iter_rows())
    graphs = here.filter(pl.col("category") == int(Category.GRAPH), pl.col("place").is_in(steps.implode()))
    counted = pl.concat(
        [
            chosen.select(
                "start_ns",
                "place",
                name="text",
                flops=pl.Series([counts[kind] for kind in kinds.iter_rows()], dtype=pl.Int64),
            ),
            # the operations inside a compiled graph are not recorded as operators, so their number is unknown
            graphs.select("start_ns", "place", name="text", flops=pl.lit(None, pl.Int64)),
        ]
    )
    piece = intervals.locate(counted["start_ns"], found.pieces)
    return counted.select(
        table["row"].gather(counted["place"]).alias("step"),
        found.pieces["owner"].gather(piece).alias("owner"),
        found.pieces["part"].gather(piece).alias("part"),
        "name",
        "flops",
    ).cast(_COUNTED), len(steps)


def _inside(chosen: pl.DataFrame, spans: pl.DataFrame) -> pl.Series:
    """Return, for each operator, whether another chosen operator contains it; then only the outer one's FLOPs count."""
    around, own = spans["parent"].gather(chosen["id"]), chosen["id"].implode()
    found = pl.repeat(False, chosen.height, dtype=pl.Boolean, eager=True)
    while around.null_count() < around.len():
        found = found | around.is_in(own).fill_null(False)
        around = spans["parent"].gather(around)
    return found


def _kernels(found: Ownership, steady: pl.DataFrame, stream: Stream) -> tuple[pl.DataFrame, int]:
    """Return the FLOPs of MindSpore's kernels, as `_COUNTED`, and the number of steps that they cover.

    The owner of kernels with an unknown module is null.
    """
    covered = steady.filter(intervals.locate(steady["start_ns"], stream.covered).is_not_null())
    pieces = found.pieces.filter(pl.col("step").is_in(covered["row"].implode()))
    steps = pieces["step"].n_unique()
    named = pieces.select(
        "step",
        "owner",
        "part",
        stream.names["type"].gather(pieces["kernel"]).alias("name"),
        stream.texts.gather(pieces["shapes"]).alias("sizes"),
    )
    kinds = named.select(pl.col("owner").fill_null(""), "name", pl.col("sizes").fill_null("")).rows()
    counts = flops.of_kernels(dict.fromkeys(kinds))
    chosen = pl.Series([kind in counts for kind in kinds], dtype=pl.Boolean)
    count = pl.Series("flops", [counts.get(kind) for kind in kinds], dtype=pl.Int64)
    return named.with_columns(count).filter(chosen).select(*_COUNTED).cast(_COUNTED), steps


def _unbound(found: Ownership, counted: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Return the passes of modules whose FLOPs are unknown, because no kernel of the pass is bound to the module.

    Such a pass has no operations only if the module of each counted kernel is known. Otherwise, a kernel with an
    unknown module may belong to the pass.

    Args:
        found: the modules of the run with their times, from `ownership.ownership`.
        counted: the FLOPs of all kernels, as `_COUNTED`; the owner of kernels with an unknown module is null.

    Returns:
        The passes, as `_PASSES`, and the types of the kernels with an unknown module.
    """
    loose = counted.filter(pl.col("owner").is_null(), pl.col("part") != int(Part.OPTIMIZER))
    unknown = pl.col("part") == int(Part.UNKNOWN)
    possible = [back for back in (False, True) if not loose.filter(unknown | (back == _BACKWARD)).is_empty()]
    own = found.pieces.drop_nulls("owner").filter(pl.col("part") != int(Part.OPTIMIZER))
    passes = own.select("owner", back=_BACKWARD).unique()
    every = (
        passes.select("owner").unique().join(pl.DataFrame({"back": possible}, schema={"back": pl.Boolean}), how="cross")
    )
    missing = every.join(passes, on=["owner", "back"], how="anti")
    return missing, loose["name"].unique().sort().to_list() if missing.height else []
