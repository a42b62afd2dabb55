"""Find the modules of kernels that no recorded span queued, such as the kernel of `x + y`.

Only the neighbours of such a kernel in the queue tell when it was queued, so the host may have been in several modules.
The kernel gets no module from this one run of it, because any of these modules may have queued it. Two observations
leave fewer modules:

1. Autograd's nodes (`readers.tapes`) list the operators of a forward pass in order, with their modules. If the forward
   pass has as many kernels of a primitive as nodes, the n-th kernel belongs to the n-th node. This counts only if the
   module of each of these nodes is possible for its kernel.
2. A network repeats the same sequence of operators in each step. Kernels at the same place of the sequence belong to
   the same module, so this module is possible for each of them. The place is the gap between two neighbouring kernels
   with known spans: the number of each span in the call of the network, its operator and its module, and the kernels in
   the gap.

If exactly one module is left, the kernel is bound to it by order. Otherwise its module stays unknown.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.host_line import OUTSIDE, Line
from ms_profiler.analysis.metrics.launches import key_of
from ms_profiler.analysis.metrics.passes import Passes
from ms_profiler.analysis.metrics.scopes import Scope

#: a kernel with more possible owners than this tells nothing
_MOST: Final = 64
#: a place in the sequence of operators: the neighbours of the gap, the kernels in the gap, and the place in the gap
_PLACE: Final = ["before_mark", "after_mark", "held", "nth"]
_POSSIBLE: Final = pl.Schema({"place": pl.UInt32, "owner": pl.Int64})
_NODES: Final = pl.Schema({"tape": pl.UInt32, "key": pl.UInt32, "owner": pl.Int64})


class Gaps:
    """The modules of the stepping thread, for kernels that no recorded span queued.

    Args:
        line: the spans of modules and optimizers.
        launchers: the spans that queue kernels: `row`, `start_ns`, `key`.
        passes: the backward passes.
        names: the names of the recording; spans refer to names by row.
    """

    def __init__(self, line: Line, launchers: pl.DataFrame, passes: Passes, names: pl.Series) -> None:
        self._cuts, self._passes = line.cuts, passes
        self._rows = {name: row for row, name in enumerate(names)} if passes.nodes else {}
        outermost = intervals.locate(launchers["start_ns"], line.outermost)
        marked = launchers.select(
            pl.col("row").cast(pl.UInt32),
            "key",
            outermost.alias("outermost"),
            self._cuts["owner"].gather(self._row(launchers["start_ns"])).alias("owner"),
        )
        number = pl.when(pl.col("outermost").is_not_null()).then(pl.int_range(pl.len()).over("outermost"))
        self._marks = marked.select("row", mark=pl.struct("key", "owner", number=number).hash(7))

    def certain(self, kernels: pl.DataFrame) -> pl.Series:
        """Return the module of each kernel as the row of its name, if the host can have queued it in no other one.

        Args:
            kernels: `after` and `before` (the kernel was queued between these times).
        """
        first, last = self._reach(kernels)
        owner = self._cuts["owner"].gather(first)
        sure = ((first == last) & (owner != OUTSIDE)).fill_null(False)
        return owner.zip_with(sure, pl.Series([None], dtype=pl.Int64)).cast(pl.UInt32)

    def bind(self, kernels: pl.DataFrame, scopes: list[Scope]) -> pl.Series:
        """Return the module of each kernel that the order tells, as the row of its name; null if unknown.

        Args:
            kernels: sorted by window, lane and start: `window_ns`, `lane`, `kernel`, `launch` (row of the span that
                queued the kernel; null if unknown), `after` and `before` (the kernel was queued between these times),
                `free` (whether no recorded span queued the kernel, and no backward pass and no optimizer did),
                `ahead` (whether a known span queued the kernel, or it is free).
            scopes: the parsed kernel names; the column `kernel` is the index of the name.
        """
        first, last = self._reach(kernels)
        placed = kernels.with_columns(first.alias("first"), last.alias("last")).with_row_index("place")
        found = self._in_gaps(placed, scopes)
        by_order = pl.repeat(None, kernels.height, dtype=pl.UInt32, eager=True)
        return by_order.scatter(found["place"], found["owner"].cast(pl.UInt32))

    def _reach(self, kernels: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        """Return the first and the last row of `self._cuts` in which each kernel can have been queued; null if none."""
        sound = (kernels["after"] <= kernels["before"]).fill_null(False)
        none = pl.Series([None], dtype=pl.Int64)
        first, last = (self._row(kernels[bound]).zip_with(sound, none) for bound in ("after", "before"))
        return first, last

    def _row(self, times: pl.Series) -> pl.Series:
        """Return the row of `self._cuts` at each time."""
        return self._cuts["start_ns"].search_sorted(times, side="right").cast(pl.Int64) - 1

    def _in_gaps(self, placed: pl.DataFrame, scopes: list[Scope]) -> pl.DataFrame:
        """Return `place` and `owner` of the kernels whose module the order tells.

        Args:
            placed: the kernels of `bind` with `place`, and `first` and `last`: the rows of `self._cuts` in which the
                kernel can have been queued.
            scopes: the parsed kernel names; the column `kernel` is the index of the name.
        """
        narrow = placed.filter(pl.col("last") - pl.col("first") < _MOST)
        wide = narrow.filter("free", pl.col("first") < pl.col("last")).select("place")
        if wide.is_empty():
            return pl.DataFrame(schema=_POSSIBLE)
        keyed = _keyed(placed.join(self._marks, left_on="launch", right_on="row", how="left", maintain_order="left"))
        wanted = keyed.join(wide, on="place", how="semi").select(_PLACE).unique()
        keyed = keyed.join(wanted, on=_PLACE, how="semi").join(narrow.select("place"), on="place", how="semi")
        forward, nodes = self._forward(placed, scopes)
        known = pl.concat([keyed["place"], forward["place"]]).unique()
        rows = (
            narrow.filter(pl.col("place").is_in(known.implode()))
            .select("place", cut=pl.int_ranges("first", pl.col("last") + 1))
            .explode("cut")
        )
        possible = rows.select("place", self._cuts["owner"].gather(rows["cut"])).unique()
        told = _told(forward, nodes, possible)
        left = pl.concat([possible.join(told, on="place", how="anti"), told])
        counted = left.join(keyed, on="place").with_columns(kernels=pl.col("place").n_unique().over(_PLACE))
        common = counted.group_by(*_PLACE, "owner").agg(all=pl.len() == pl.col("kernels").first()).filter("all")
        single = common.filter(pl.len().over(_PLACE) == 1, pl.col("owner") != OUTSIDE)
        return keyed.join(wide, on="place", how="semi").join(single, on=_PLACE).select(_POSSIBLE.names()).sort("place")

    def _forward(self, placed: pl.DataFrame, scopes: list[Scope]) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the kernels of forward passes with known nodes, as `Passes.forward`, and the nodes, as `_NODES`."""
        numbers = {key: number for number, key in enumerate(dict.fromkeys(key_of(scope.type) for scope in scopes))}
        keys = pl.Series([numbers[key_of(scope.type)] for scope in scopes], dtype=pl.UInt32)
        ahead = placed.filter("ahead")
        nodes = [
            (tape, numbers[key], OUTSIDE if node.module is None else self._rows.get(node.module))
            for tape, recorded in enumerate(self._passes.nodes)
            for node in recorded.nodes
            if (key := key_of(node.name)) in numbers
        ]
        forward = self._passes.forward(ahead.with_columns(keys.gather(ahead["kernel"]).alias("key")))
        return forward, pl.DataFrame(nodes, schema=_NODES, orient="row")


def _keyed(placed: pl.DataFrame) -> pl.DataFrame:
    """Return `place` and the columns of `_PLACE` for each free kernel."""
    moved = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in ("window_ns", "lane"))
    mark = pl.when("free").then(None).otherwise(pl.coalesce("mark", pl.struct("kernel").hash(11)))
    rows = placed.select("place", "kernel", "free", moved.alias("moved"), mark.alias("mark")).with_columns(
        gap=(~pl.col("free") | pl.col("moved")).cum_sum(),
        next=pl.when(~pl.col("moved").shift(-1)).then(pl.col("mark").shift(-1)),
    )
    inside = rows.filter("free").with_columns(nth=pl.int_range(pl.len()).over("gap"))
    held = inside.group_by("gap").agg(
        held=pl.struct("kernel", "nth").hash(7).sum(), after_mark=pl.col("next").last().fill_null(0)
    )
    begun = rows.filter(~pl.col("free")).select("gap", before_mark="mark")
    return (
        inside.join(held, on="gap", maintain_order="left")
        .join(begun, on="gap", how="left", maintain_order="left")
        .select("place", pl.col("before_mark").fill_null(0), "after_mark", "held", "nth")
    )


def _told(forward: pl.DataFrame, nodes: pl.DataFrame, possible: pl.DataFrame) -> pl.DataFrame:
    """Return `place` and `owner` of the kernels whose node is known.

    Args:
        forward: the kernels of forward passes, in order, as `Passes.forward` returns them.
        nodes: the nodes in the order of the tapes, as `_NODES`.
        possible: the possible owners of each kernel: `place`, `owner`.
    """
    nth, count = pl.int_range(pl.len()), pl.len()
    made = nodes.with_columns(nth=nth.over("tape", "key"), count=count.over("tape", "key"))
    paired = (
        forward.filter(pl.col("lane").n_unique().over("pass") == 1)
        .with_columns(nth=nth.over("pass", "key"), count=count.over("pass", "key"))
        .join(made, on=["tape", "key", "nth", "count"])
        .join(possible.with_columns(fits=pl.lit(True)), on=["place", "owner"], how="left")
    )
    sound = pl.col("fits").fill_null(False).all().over("pass", "key")
    return paired.filter(sound).select(_POSSIBLE.names())
