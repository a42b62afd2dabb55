"""Find the phase of the training step to which each kernel belongs, and its module, or at least its primitive.

In a compiled graph, the parameters that a kernel uses tell its module (`metrics.graph_owners`). Elsewhere, the host
only queues operators, and a worker thread runs them later. So when a kernel starts, the host may already be in another
module. But the queue is first in, first out: the kernels of a lane start in the order in which the host queued them. So
a kernel with a known queueing time limits the queueing times of the kernels before and after it. If the host was in one
module from the earliest to the latest possible queueing time, the kernel belongs to this module. If it was in several,
the kernel has no module unless the order tells it (`metrics.gaps`).

Kernels of a backward pass run inside no module, because autograd launches them. Autograd follows the reverse order of
the operators. This order limits the operators whose gradients a kernel can compute (`metrics.gradients`). The kernel
belongs to the innermost module around all of these operators.

Bindings that the order tells are "bound by order". Bindings by order and by parameter are inferences; the other
bindings are facts.
"""

from enum import IntEnum
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, launches
from ms_profiler.analysis.metrics.communication import COLLECTIVES
from ms_profiler.analysis.metrics.gaps import Gaps
from ms_profiler.analysis.metrics.host_line import Line
from ms_profiler.analysis.metrics.launches import key_of
from ms_profiler.analysis.metrics.passes import RECOMPUTE, Passes
from ms_profiler.analysis.metrics.scopes import SEED, Part, Scope
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.readers.tapes import Tape
from ms_profiler.store.format import Category


class Bound(IntEnum):
    """What is known about the origin of a kernel: nothing, a phase, a primitive or a module."""

    NOTHING = 0
    PHASE = 1  # only a phase of the step
    PRIMITIVE = 2  # a primitive, but no module
    MODULE = 3
    ORDER = 4  # a module, inferred from the order of the operators
    PARAMETER = 5  # a module, known by the parameters that the compiled graph uses


#: kinds of binding whose module is only inferred -> words for how the module was inferred
INFERRED: Final = {Bound.ORDER: "by order", Bound.PARAMETER: "by parameter"}

_PARTS: Final = {
    Category.FORWARD: Part.FORWARD,
    Category.BACKWARD: Part.BACKWARD,
    Category.OPTIMIZER: Part.OPTIMIZER,
}
#: the columns of `tables.KERNELS` that `Hosts.bind` adds
ADDED: Final = ("step", "host", "launch", "module", "bound", "part")


class Hosts:
    """The spans of the thread that runs the training steps, for look-ups by time.

    Args:
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        names: the names of the recording; spans refer to names by row.
        steps: the steps in use.
        tapes: recorded lists of autograd's nodes for some backward passes (`readers.tapes`).
    """

    def __init__(self, spans: pl.DataFrame, names: pl.Series, steps: Steps, tapes: list[Tape]) -> None:
        own = spans.with_row_index("row").filter(pl.col("process") == steps.process, pl.col("thread") == steps.thread)
        self.steps = steps
        self._spans = spans
        self._keys = {name: row for row, name in enumerate(dict.fromkeys(map(key_of, names)))}
        self._by_phase = {int(category): intervals.union(_of(own, category)) for category in _PARTS}
        keys = pl.Series([self._keys[key_of(name)] for name in names], dtype=pl.UInt32)
        launchers = _outer(_of(own, Category.OP, Category.COMMUNICATION), keys)
        self._launchers = launchers.select(
            "row",
            "start_ns",
            "key",
            self._spell(launchers["start_ns"]).alias("spell"),
            self._begun(launchers["start_ns"]).alias("segment"),
        )
        self._all = Line(own)
        self._modules = Line(_of(own, Category.MODULE, Category.OPTIMIZER))
        self._primitives = Line(_of(own, Category.OP, Category.GRAPH))
        self._phases = Line(_of(own, *_PARTS))
        recomputed = [name.startswith(RECOMPUTE) for name in names]
        self._recomputed = pl.Series(recomputed, dtype=pl.Boolean)
        self._passes = Passes(own, names, steps, [tape for tape in tapes if steps.thread in tape.threads])
        self._gaps = Gaps(self._modules, self._launchers, self._passes, names)
        self._called = set(keys.gather(launchers["name"].unique()))

    def bind(self, kernels: pl.DataFrame, scopes: list[Scope], texts: dict[str, int]) -> pl.DataFrame:
        """Return the kernels with the columns of `ADDED`, such as the step and the module of each kernel.

        Args:
            kernels: table with `process`, `kernel`, `lane`, `start_ns` and `window_ns` (start of the recorded window
                that contains the kernel), sorted by window, lane and start.
            scopes: the parsed kernel names; the column `kernel` is the index of the name.
            texts: text -> its row. The function adds new texts; the recording's names keep their rows.
        """
        own = kernels["process"] == self.steps.process
        times = kernels["start_ns"].zip_with(own, pl.Series([None], dtype=pl.Int64))
        step = intervals.locate(times, self.steps.table).alias("step")
        only = pl.Series(map(self._only_in, scopes), dtype=pl.UInt8).gather(kernels["kernel"])
        unknown = pl.repeat(None, kernels.height, dtype=pl.UInt32, eager=True)
        called = self._keys.get(key_of(SEED)) in self._called
        seeds = self._seeds(kernels, self._launch(kernels, scopes, only) if called else unknown, only, scopes)
        # the seed is the first kernel of a backward pass, so it shows that the pass has begun. The first kernel that
        # occurs only in backward passes may come later, because kernels of the loss may run again after the seed
        begins = only.zip_with(
            seeds.is_null(), pl.repeat(int(Category.BACKWARD), len(only), dtype=pl.UInt8, eager=True)
        )
        launch = self._launch(kernels, scopes, begins)
        after, before = self._queued(kernels.with_columns(times), launch, only, seeds)
        module, phase = self._modules.around(after, before), self._phases.around(after, before)
        loose = phase.is_null() & launch.is_null() & module.is_null()
        joined = self._passes.outer(phase)
        trailing = self._passes.trailing(
            kernels.select("kernel", "lane", backward=joined, loose=loose & times.is_not_null()), scopes
        )
        phase, joined = (each.scatter(trailing["place"], trailing["backward"]) for each in (phase, joined))
        timed = kernels.with_columns(after=after, before=before)
        sure = self._gaps.certain(timed)
        own = launch.is_null() & (sure.is_null() | (joined == phase))
        by_nodes = self._by_nodes(timed.with_columns(phase=joined), own, scopes)
        ordered = self._ordered(timed.with_columns(phase=phase), launch, by_nodes, scopes, texts)
        phase = phase.scatter(by_nodes["place"], joined.gather(by_nodes["place"]))
        ahead = times.is_not_null() & (self._spans["category"].gather(phase) == int(Category.FORWARD)).fill_null(True)
        nameless = pl.Series([item.module is None and not item.expanded for item in scopes], dtype=pl.Boolean)
        free = ahead & launch.is_null() & nameless.gather(kernels["kernel"])
        queued = timed.with_columns(launch=launch, free=free, ahead=free | (ahead & launch.is_not_null()))
        ordered = ordered.zip_with(ordered.is_not_null(), self._gaps.bind(queued, scopes))
        again = pl.repeat(None, kernels.height, dtype=pl.Boolean, eager=True).scatter(
            by_nodes["place"], by_nodes["again"]
        )
        named = pl.DataFrame(
            [
                pl.Series("scope", [None if item.module is None else texts[item.module] for item in scopes], pl.UInt32),
                pl.Series("expanded", [item.expanded for item in scopes], pl.Boolean),
                pl.Series("named", [int(item.part) for item in scopes], pl.UInt8),
                pl.Series("inferred", [not item.named for item in scopes], pl.Boolean),
            ]
        )
        known = pl.concat([kernels, named.select(pl.all().gather(kernels["kernel"]))], how="horizontal").with_columns(
            step,
            launch,
            self._all.at(times).alias("host"),
            sure.alias("around"),
            module.is_not_null().alias("within"),
            ordered.alias("order"),
            self._spans["category"].gather(phase).alias("phase"),
            again=again.zip_with(
                again.is_not_null(), self._recomputed.gather(self._spans["name"].gather(phase)).fill_null(False)
            ),
            called=launch.is_not_null() | self._primitives.at(times).is_not_null(),
            inside=self._phases.at(times).is_not_null() | self._modules.at(times).is_not_null(),
        )
        parts = {int(category): int(part) for category, part in _PARTS.items()}
        return known.select(
            *kernels.columns,
            "step",
            "host",
            "launch",
            pl.coalesce("scope", pl.when(~pl.col("expanded")).then("around"), "order").alias("module"),
            pl.when(pl.col("scope").is_not_null() & pl.col("inferred"))
            .then(int(Bound.PARAMETER))
            .when(pl.col("scope").is_not_null() | (pl.col("around").is_not_null() & ~pl.col("expanded")))
            .then(int(Bound.MODULE))
            .when(pl.col("order").is_not_null())
            .then(int(Bound.ORDER))
            .when(pl.col("expanded") | pl.col("called"))
            .then(int(Bound.PRIMITIVE))
            .when("inside")
            .then(int(Bound.PHASE))
            .otherwise(int(Bound.NOTHING))
            .cast(pl.UInt8)
            .alias("bound"),
            pl.when(pl.col("named") > 0)
            .then("named")
            .when("again")
            .then(int(Part.RECOMPUTE))
            .when(pl.col("phase").is_not_null())
            .then(pl.col("phase").replace_strict(parts, default=0, return_dtype=pl.UInt8))
            .when("within")
            .then(int(Part.FORWARD))
            .otherwise(int(Part.UNKNOWN))
            .cast(pl.UInt8)
            .alias("part"),
        )

    def _launch(self, kernels: pl.DataFrame, scopes: list[Scope], only: pl.Series) -> pl.Series:
        """Return for each kernel the row of the span that queued it; null if unknown.

        Args:
            kernels: table of kernels, as for `bind`.
            scopes: the parsed kernel names; the column `kernel` is the index of the name.
            only: for each kernel, the only phase to which it can belong; null if it can belong to several.
        """
        keys = [self._keys.get(key_of(COLLECTIVES.get(scope.type, scope.type))) for scope in scopes]
        # the host runs ahead of the kernels. A kernel that occurs only in backward passes shows that the queue has
        # reached the pass
        begun = self._begun(kernels["start_ns"]).zip_with(
            (only == int(Category.BACKWARD)).fill_null(False), self._begun(kernels["window_ns"])
        )
        order = kernels["start_ns"].arg_sort()
        windows = kernels["window_ns"].unique().sort()
        # kernels of another process are not limited by the spans of this process, so they get no window
        own = kernels["process"] == self.steps.process
        queue = kernels.select(
            pl.when(own).then("window_ns").alias("window"),
            self._spell(kernels["start_ns"].zip_with(own, pl.Series([None], dtype=pl.Int64))).alias("spell"),
            pl.Series("key", keys, dtype=pl.UInt32).gather(kernels["kernel"]),
            "lane",
            "start_ns",
            segment=begun.gather(order).cum_max().gather(order.arg_sort()),
        )
        began = windows.search_sorted(self._launchers["start_ns"], side="right").cast(pl.Int64) - 1
        began = began.zip_with(began >= 0, pl.Series([None], dtype=pl.Int64))
        present = self._launchers.with_columns(window=windows.gather(began))
        here = pl.col("start_ns").is_between(_or_zero(windows.min()), _or_zero(kernels["start_ns"].max()))
        wanted = here | pl.col("spell").is_in(queue["spell"].unique().drop_nulls().implode())
        return launches.match(queue, present.filter(wanted)).alias("launch")

    def _spell(self, times: pl.Series) -> pl.Series:
        """Return an odd number for a time in a step, and an even number for a time between two steps; both increase."""
        began = self.steps.table["start_ns"].search_sorted(times, side="right").cast(pl.UInt32)
        inside = intervals.locate(times, self.steps.table).is_not_null()
        return (began * 2 - inside.cast(pl.UInt32)).zip_with(times.is_not_null(), pl.Series([None], dtype=pl.UInt32))

    def _begun(self, times: pl.Series) -> pl.Series:
        """Return the number of backward passes that had begun at each time."""
        return self._by_phase[Category.BACKWARD]["start_ns"].search_sorted(times, side="right").cast(pl.UInt32)

    def _only_in(self, scope: Scope) -> int | None:
        """Return the only phase in which a primitive occurs; None if there are several, or if Python calls it."""
        return None if self._keys.get(key_of(scope.type)) in self._called else scope.phase

    def _seeds(self, kernels: pl.DataFrame, launch: pl.Series, phases: pl.Series, scopes: list[Scope]) -> pl.Series:
        """Return the start of each backward pass at its first kernel, the seed; null at all other kernels.

        If a step has as many kernels of the type `SEED` as backward passes, kernel n is the seed of pass n. Otherwise
        the seed of a pass is the last kernel of this type before the first kernel that occurs only in backward passes.
        Earlier kernels of this type may belong to the forward pass, because kernels of the forward pass may still be
        queued when the backward pass begins.
        """
        spans = self._by_phase[Category.BACKWARD]
        seed = pl.Series([scope.type == SEED for scope in scopes], dtype=pl.Boolean).gather(kernels["kernel"])
        place = intervals.locate(kernels["start_ns"], spans)
        late = self._late(kernels.select("start_ns", seed=seed & launch.is_null()).with_row_index("row"))
        found = kernels.select(
            pl.int_range(pl.len()).alias("row"),
            place.alias("pass"),
            seed=seed & launch.is_null(),
            sure=(phases == int(Category.BACKWARD)).fill_null(False),
        )
        early = pl.col("sure").cum_sum().over("pass") == 0
        known = late["pass"].implode()
        rest = found.filter("seed", early, pl.col("pass").is_not_null(), ~pl.col("pass").is_in(known))
        seeds = pl.concat([rest.group_by("pass").agg(pl.col("row").last()).cast(late.schema), late])
        began = pl.repeat(None, kernels.height, dtype=pl.Int64, eager=True)
        return began.scatter(seeds["row"], spans["start_ns"].gather(seeds["pass"])).alias("seeds")

    def _late(self, kernels: pl.DataFrame) -> pl.DataFrame:
        """Return `pass` and the kernel's `row` for the seeds (first kernels) of backward passes.

        Steps in which the number of seeds differs from the number of backward passes are left out.
        """
        spans = self._by_phase[Category.BACKWARD].with_row_index("pass")
        begun = spans.select("pass", "start_ns", step=intervals.locate(spans["start_ns"], self.steps.table))
        seeds = kernels.filter("seed").with_columns(
            step=intervals.locate(kernels.filter("seed")["start_ns"], self.steps.table)
        )
        number = pl.int_range(pl.len()).over("step").alias("number")
        count = pl.len().over("step").alias("count")
        pairs = (
            seeds.drop_nulls("step")
            .sort("start_ns")
            .with_columns(number, count)
            .join(begun.drop_nulls("step").with_columns(number, count), on=["step", "number", "count"])
        )
        sound = (pl.col("start_ns") >= pl.col("start_ns_right")).all().over("step")
        return pairs.filter(sound).select(pl.col("pass").cast(pl.UInt32), pl.col("row").cast(pl.UInt32))

    def _by_nodes(self, kernels: pl.DataFrame, own: pl.Series, scopes: list[Scope]) -> pl.DataFrame:
        """Return the modules of kernels as autograd's nodes tell them, from `Passes.by_nodes`.

        Args:
            kernels: the kernels, with the columns `after`, `before` and `phase`, as for `_ordered`.
            own: for each kernel, whether its module is still unknown.
            scopes: the parsed kernel names; the column `kernel` is the index of the name.
        """
        return self._passes.by_nodes(kernels.with_columns(backward=self._backward(kernels, own, scopes)), scopes)

    def _ordered(
        self,
        kernels: pl.DataFrame,
        launch: pl.Series,
        by_nodes: pl.DataFrame,
        scopes: list[Scope],
        texts: dict[str, int],
    ) -> pl.Series:
        """Return each kernel's module, inferred from the order of its backward pass: row of the path; null if unknown.

        Args:
            kernels: the kernels, with the columns `after` (earliest possible queueing time), `before` (latest possible
                queueing time) and `phase` (row of the phase's span).
            launch: for each kernel, the row of the span that queued it; null if unknown.
            by_nodes: the modules that autograd's nodes tell, from `_by_nodes`; they replace the inferred modules.
            scopes: the parsed kernel names; the column `kernel` is the index of the name.
            texts: text -> its row; the function adds new texts.
        """
        rows = by_nodes["module"].replace_strict(
            {path: texts.setdefault(path, len(texts)) for path in by_nodes["module"].drop_nulls().unique().sort()},
            default=None,
            return_dtype=pl.UInt32,
        )
        passed = kernels.with_columns(backward=self._backward(kernels, launch.is_null(), scopes))
        times = self._passes.owned(passed, scopes).join(by_nodes, on="place", how="anti")
        around = self._spans["name"].gather(self._modules.around(times["after"], times["before"]))
        ordered = pl.repeat(None, kernels.height, dtype=pl.UInt32, eager=True)
        return ordered.scatter(times["place"], around).scatter(by_nodes["place"], rows)

    def _backward(self, kernels: pl.DataFrame, own: pl.Series, scopes: list[Scope]) -> pl.Series:
        """Return the row of each kernel's backward pass; null if `own` is false or the kernel's name has a module."""
        named = pl.Series([scope.module is not None for scope in scopes], dtype=pl.Boolean)
        phase = kernels["phase"]
        own = own & ~named.gather(kernels["kernel"]) & phase.is_in(self._passes.rows.implode())
        return phase.zip_with(own.fill_null(False), pl.Series([None], dtype=pl.UInt32))

    def _queued(
        self, kernels: pl.DataFrame, launch: pl.Series, phases: pl.Series, seeds: pl.Series
    ) -> tuple[pl.Series, pl.Series]:
        """Return the earliest and the latest time at which each kernel can have been queued.

        earliest(i) = max(lower bounds of the kernels up to i in the lane)
        latest(i) = min(upper bounds of the kernels from i on in the lane)

        Lower bounds of a kernel: the start of its recorded window, because the queue is empty then; the start of the
        span that queued the kernel; the start of the phase, if the kernel's primitive occurs in one phase only.
        Upper bounds: the start of the kernel; the start of the span that queued it; the end of that phase.
        """
        queued = self._spans["start_ns"].gather(launch)
        # a pass begins with its seed, so the kernels that precede the seed in a lane were queued before the pass
        after: list[pl.Expr | pl.Series] = [pl.col("window_ns"), queued, seeds]
        before = [
            pl.col("start_ns"),
            queued,
            kernels.select(seeds.alias("began"), "lane").select(pl.col("began").shift(-1).over("lane")).to_series(),
        ]
        for category, spans in self._by_phase.items():
            row = spans["start_ns"].search_sorted(kernels["start_ns"], side="right").cast(pl.Int64) - 1
            row = row.zip_with((phases == category).fill_null(False) & (row >= 0), pl.Series([None], dtype=pl.Int64))
            after.append(spans["start_ns"].gather(row))
            before.append(spans["end_ns"].gather(row) - 1)
        bounds = kernels.select("lane", after=pl.max_horizontal(after), before=pl.min_horizontal(before)).select(
            pl.col("after").cum_max().over("lane"),
            pl.col("before").cum_min(reverse=True).over("lane"),
        )
        return bounds["after"], bounds["before"]


def _of(spans: pl.DataFrame, *categories: Category) -> pl.DataFrame:
    return spans.filter(pl.col("category").is_in([int(category) for category in categories]))


def _outer(spans: pl.DataFrame, keys: pl.Series) -> pl.DataFrame:
    """Return the spans that queue kernels, with the column `key`: the common name of the primitive.

    The script's call of an exchange contains a span of the same operator. Both queue only one kernel, so the operator
    is left out.

    Args:
        spans: the operators, and the calls of exchanges.
        keys: the common name of each name of the recording, as a number.
    """
    called = pl.col("category") == int(Category.COMMUNICATION)
    until = pl.when(called).then("end_ns").forward_fill().shift(1).over("key", order_by=["start_ns", "row"])
    named = spans.with_columns(keys.gather(spans["name"]).alias("key"))
    return named.filter(called | (pl.col("start_ns") >= until).fill_null(True))


def _or_zero(value: object) -> int:
    return value if isinstance(value, int) else 0
