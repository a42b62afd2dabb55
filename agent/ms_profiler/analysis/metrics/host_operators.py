"""Operators that compute where they are called: those of PyTorch on a processor, one inside another.

There an operator is what a kernel is elsewhere, but for what it calls: its self time is its own work, and the innermost
ones, which call none, are told one by one as kernels are. Sums of total times count inner operators again.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis import tables
from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.phases import innermost
from ms_profiler.analysis.nesting import order
from ms_profiler.analysis.sections import Section
from ms_profiler.store.format import Category

_THREAD: Final = ["process", "thread"]
#: what is asked of the operators of a section, and where their modules come from
_COLUMNS: Final = ("process", "thread", "name", "category", "start_ns", "end_ns", "arg")
_TAKEN: Final = (Category.OP, Category.MODULE)


def compute(recording: tables.Recording) -> bool:
    """Tell whether the operators of this run are such: PyTorch's, and no accelerator was in use.

    Args:
        recording: the run.
    """
    framework = recording.info.framework
    return framework.get("name") == "torch" and framework.get("device", "CPU").upper() in ("", "CPU")


def calls(spans: pl.DataFrame) -> pl.DataFrame:
    """Return every operator, by process, thread and start.

    Args:
        spans: `tables.SPANS` with `duration_ns`, and whatever else is to be kept.

    Returns:
        these, `module` (row of the names of the innermost module around its start, null outside of all), `inner`
        (whether no other operator ran in it) and `wait_ns` (since the end of the innermost one before it in its thread,
        0 for the first, null for those that are not innermost).
    """
    # the next one in order of start, the longest first, is inside if any is
    last = (pl.col("thread") != pl.col("thread").shift(-1)) | (pl.col("process") != pl.col("process").shift(-1))
    after = pl.col("start_ns").shift(-1) >= pl.max_horizontal("end_ns", pl.col("start_ns") + 1)
    operators = spans.filter(pl.col("category") == Category.OP).with_columns(inner=(last | after).fill_null(True))
    modules = spans.filter(pl.col("category") == Category.MODULE)
    found = []
    for (process, thread), own in operators.group_by(_THREAD, maintain_order=True):
        around = modules.filter(pl.col("process") == process, pl.col("thread") == thread)
        module = pl.repeat(None, own.height, dtype=pl.UInt32, eager=True)
        if not around.is_empty():
            pieces = innermost(around, "name")
            module = pieces["name"].gather(intervals.locate(own["start_ns"], pieces))
        ends = own.select(pl.when("inner").then("end_ns").cum_max().forward_fill().shift(1)).to_series()
        wait = pl.when("inner").then((own["start_ns"] - ends).clip(lower_bound=0).fill_null(0))
        found.append(own.with_columns(module.alias("module"), wait_ns=wait))
    if not found:
        return operators.with_columns(module=pl.lit(None, pl.UInt32), wait_ns=pl.lit(None, pl.Int64))
    return pl.concat(found)


def calls_in(section: Section) -> pl.DataFrame:
    """Return what `calls` does, of a run in sections.

    Args:
        section: of the run; what its operators stand in or come after is carried over from those before.
    """
    parts = [(section.carried, True), (section.spans, False)]
    known = pl.concat(
        part.filter(pl.col("category").is_in(_TAKEN)).select(_COLUMNS).with_columns(carried=pl.lit(carried))
        for part, carried in parts
    )
    spans = known[order(known)["row"]].with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
    return calls(spans).filter(~pl.col("carried"))


def flows(operators: pl.DataFrame) -> pl.DataFrame:
    """Return both ends of the ties, first all begins: `end` ("s" or "f"), `id`, `process`, `thread`, `start_ns`.

    Args:
        operators: of `calls`.
    """
    operators = operators.filter(pl.col("arg") > 0)
    pairs = ties(operators)
    places = operators.select("process", "thread", "start_ns")
    return pl.concat(
        places[pairs[side]].with_columns(id=pairs["forward"], end=pl.lit(end))
        for end, side in (("s", "forward"), ("f", "backward"))
    )


def ties(operators: pl.DataFrame) -> pl.DataFrame:
    """Return which operator each gradient is of, where autograd's numbers are known.

    Several operators that are one inside another carry a number: the last to begin made the gradient. Of what runs the
    gradient the first to begin is taken. A number is used again in another process.

    Args:
        operators: of `calls`.

    Returns:
        `forward` and `backward`, rows of `operators`.
    """
    numbered = operators.with_row_index("row").filter(pl.col("arg") > 0)
    key = [pl.col("process"), (pl.col("arg") // 2).alias("number")]
    forward = numbered.filter(pl.col("arg") % 2 == 0).sort("start_ns").group_by(*key).agg(pl.col("row").last())
    backward = numbered.filter(pl.col("arg") % 2 == 1).sort("start_ns").group_by(*key).agg(pl.col("row").first())
    return (
        forward.rename({"row": "forward"})
        .join(backward.rename({"row": "backward"}), on=["process", "number"])
        .sort("forward")
        .select("forward", "backward")
    )
