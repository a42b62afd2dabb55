"""The backward passes of the stepping thread, and the intervals in which their forward passes were queued."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import gradients, intervals, node_owners, recomputations
from ms_profiler.analysis.metrics.node_owners import Known
from ms_profiler.analysis.metrics.scopes import Scope
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.readers.tapes import Tape
from ms_profiler.store.format import Category

#: prefix of the names of spans that recompute a part of the forward pass
RECOMPUTE: Final = "recompute "
#: name of backward passes in which functions of the script may run
SCRIPTED: Final = "backward with the script's gradients"
#: columns of kernels that `Passes.owned` reads
QUEUED: Final = ("kernel", "lane", "window_ns", "after", "before", "backward")


class Passes:
    """The backward passes of a run, with the kernels and the modules that belong to them.

    Args:
        spans: the spans of the stepping thread, with their `row`.
        names: texts by row.
        steps: the steps in use.
        tapes: the lists of autograd's nodes that were recorded for some of the passes (`readers.tapes`).
    """

    def __init__(self, spans: pl.DataFrame, names: pl.Series, steps: Steps, tapes: list[Tape]) -> None:
        again = pl.Series([name.startswith(RECOMPUTE) for name in names], dtype=pl.Boolean)
        every = spans.filter(pl.col("category") == int(Category.BACKWARD)).sort("start_ns")
        found = every.filter(~again.gather(every["name"]))
        step = intervals.locate(found["start_ns"], steps.table)
        forward = spans.filter(pl.col("category") == int(Category.FORWARD))
        # for gradients of gradients, the forward pass of the outer gradient contains the inner backward pass
        inner = intervals.locate(found["start_ns"], intervals.union(forward)).is_not_null()
        nested = found.select(inner.alias("inner"), step.alias("step")).select(
            pl.col("inner").cast(pl.UInt32).cum_sum().over("step") - pl.col("inner").cast(pl.UInt32) > 0
        )
        self._table = found.select(
            pl.col("row").cast(pl.UInt32).alias("backward"),
            "start_ns",
            "end_ns",
            pl.max_horizontal(steps.table["start_ns"].gather(step), _forward(found, forward, spans)).alias("since_ns"),
            simple=~nested.to_series(),
            scripted=(names == SCRIPTED).gather(found["name"]),
        )
        self._own = known = Known.of(tapes, self._table, spans)
        alone = every.filter(again.gather(every["name"]))
        joined, passes_with_nodes, self._inside = recomputations.join(known.tapes, known.passes, self._table, alone)
        self._known = Known(joined, passes_with_nodes)

    @property
    def rows(self) -> pl.Series:
        """Return the rows of the spans of all backward passes."""
        return self._table["backward"]

    def outer(self, phases: pl.Series) -> pl.Series:
        """Return rows of spans, with the row of a backward pass in place of spans whose nodes were joined to the pass.

        Args:
            phases: rows of spans; null for no span.
        """
        inside = self._inside
        return phases.replace(inside["row"], inside["backward"]) if inside.height else phases

    def owned(self, kernels: pl.DataFrame, scopes: list[Scope]) -> pl.DataFrame:
        """Return the limits between which the owner of each kernel of a backward pass was queued.

        The owner is the operator whose gradient the kernel computes. Kernels with an unknown owner have no row.

        Args:
            kernels: `QUEUED`, sorted by lane: `window_ns` (begin of the window), `after` and `before` (the kernel was
                queued between these times), `backward` (span of the backward pass; null in a forward pass).
            scopes: the parsed names of kernels; `kernel` is an index of this list.

        Returns:
            `place` (row of `kernels`), and the limits: the times `after` and `before`.
        """
        placed = _placed(kernels)
        found = [pl.DataFrame(schema={"place": pl.UInt32, "after": pl.Int64, "before": pl.Int64})]
        found += [self._lane(lane, scopes) for lane in placed.partition_by("lane", maintain_order=True)]
        return pl.concat(found)

    def forward(self, kernels: pl.DataFrame) -> pl.DataFrame:
        """Return the kernels of forward passes with known nodes: `place`, `lane`, `pass`, `tape`, `key`.

        Args:
            kernels: `place`, `lane`, `before` (latest possible queueing time), `key`, without backward kernels.
        """
        passes = self._table.filter("simple").join(
            self._own.passes.select("backward", "tape"), on="backward", how="left"
        )
        number = passes["start_ns"].search_sorted(kernels["before"], side="left").cast(pl.Int64)
        found = kernels.with_columns(number.alias("pass")).join(
            passes.select("since_ns", "tape", pass_=pl.int_range(pl.len())), left_on="pass", right_on="pass_"
        )
        inside = found.filter(pl.col("before") >= pl.col("since_ns")).drop_nulls("tape")
        return inside.select("place", "lane", "pass", "tape", "key")

    @property
    def nodes(self) -> list[Tape]:
        """Return the lists of autograd's nodes, to which the column `tape` of `forward` refers."""
        return self._own.tapes

    def by_nodes(self, kernels: pl.DataFrame, scopes: list[Scope]) -> pl.DataFrame:
        """Return the modules that autograd's nodes show for kernels of backward passes, as `node_owners.OWNED`.

        Args:
            kernels: the kernels, with the columns that `owned` reads.
            scopes: the parsed names of kernels; the column `kernel` is an index of this list.
        """
        placed = _placed(kernels).drop_nulls("backward")
        return pl.concat(
            [pl.DataFrame(schema=node_owners.OWNED)]
            + [self._known.owned(lane, scopes) for lane in placed.partition_by("lane", maintain_order=True)]
        )

    def trailing(self, kernels: pl.DataFrame, scopes: list[Scope]) -> pl.DataFrame:
        """Return kernels that belong to a pass although they ran after its last known kernel: `place`, `backward`.

        Args:
            kernels: `kernel`, `lane`, `backward`, `loose` (whether the module is unknown), sorted by lane.
            scopes: the parsed names of kernels; the column `kernel` is an index of this list.
        """
        placed = kernels.with_row_index("place")
        return pl.concat(
            [pl.DataFrame(schema=node_owners.TRAILING)]
            + [self._known.trailing(lane, scopes) for lane in placed.partition_by("lane", maintain_order=True)]
        )

    def _lane(self, kernels: pl.DataFrame, scopes: list[Scope]) -> pl.DataFrame:
        """Return the limits of queueing times as `owned` does, for the kernels of one lane."""
        passes = (
            kernels.group_by("backward")
            .agg(pl.col("window_ns").first())
            .join(self._table.filter("simple"), on="backward")
        )
        # queueing times never decrease within a lane
        windows = kernels["window_ns"].search_sorted(passes["window_ns"], side="left")
        since = kernels["before"].search_sorted(passes["since_ns"].fill_null(0), side="left")
        begins = passes.select(
            "backward", "scripted", "start_ns", begin=pl.max_horizontal(windows, since).cast(pl.Int64)
        )
        owners = gradients.owners(kernels, begins.drop("start_ns"), scopes).join(
            begins, on="backward", how="left", maintain_order="left"
        )
        # an operator without kernels may have been queued even before the first kernel, or after the last one
        earlier = kernels["after"].gather((owners["begin"] - 1).clip(lower_bound=0))
        first = (pl.col("first") == pl.col("begin")) & pl.col("unseen")
        last = (pl.col("last") == pl.col("end") - 1) & pl.col("unseen")
        times = owners.select(
            kernels["place"].gather(owners["row"]),
            "backward",
            after=pl.when(first).then(earlier).otherwise(kernels["after"].gather(owners["first"])),
            before=pl.when(last).then("start_ns").otherwise(kernels["before"].gather(owners["last"])),
        )
        return times.select(
            "place",
            pl.col("after").cum_max(reverse=True).over("backward"),
            pl.col("before").cum_min().over("backward"),
        )


def _placed(kernels: pl.DataFrame) -> pl.DataFrame:
    return kernels.select(QUEUED).with_row_index("place")


def _forward(passes: pl.DataFrame, forward: pl.DataFrame, spans: pl.DataFrame) -> pl.Series:
    """Return when the forward pass of each backward pass began; null if unknown.

    The forward pass is the last one that began before the backward pass. If no module and no operator ran in that
    forward pass, the script had run the network earlier, before it requested gradients. Then the begin is unknown.
    """
    ran = spans.filter(pl.col("category").is_in([int(Category.MODULE), int(Category.OP)]))["start_ns"].sort()
    inside = ran.search_sorted(forward["start_ns"]) < ran.search_sorted(forward["end_ns"])
    known = forward.select("start_ns", began=pl.when(inside).then("start_ns"))
    return passes.select("start_ns").join_asof(known.sort("start_ns"), on="start_ns")["began"]
