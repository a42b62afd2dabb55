"""Estimated totals over a whole run, if only some of its steps were recorded."""

from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import between_steps, long_steps, phases, sampling
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.metrics.stretches import UNRECORDED
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.kernel_stream import Stream
from ms_profiler.store.format import CATEGORY_FINE, Category

#: phases whose hooks may rest in steps that are not sampled (`job.rest`), and phases inside them
_RESTING: Final = [phases.NAMES[category] for category in (*phases.GRAPH_OWNERS, Category.GRAPH)]


@dataclass(frozen=True)
class Phase:
    """The time of a phase in all steps.

    Attributes:
        ns: the time in ns.
        error: the standard error of an estimate in ns; None if unknown, and for exact times.
        scaled: whether a part of the time is estimated from the sampled steps.
    """

    ns: float
    error: float | None
    scaled: bool


@dataclass(frozen=True)
class Totals:
    """Sums over all steps, each with its standard error, as `sampling.totals` estimates them.

    Attributes:
        sample: how the recorded steps stand for all steps.
        spans: sums of modules and operators by `name` and `category`: `count`, `total_ns` and `self_ns`, with errors.
        stream: the kernels.
        phases: phase -> its time in all steps. The times of all phases add up to the time of the steps.
        between: the long gaps between steps.
    """

    sample: sampling.Sample
    spans: pl.DataFrame
    stream: Stream
    phases: dict[str, Phase]
    between: between_steps.Gaps

    def of(self, category: Category) -> pl.DataFrame:
        """Return the sums of one category by `name`."""
        return self.spans.filter(pl.col("category") == category).drop("category")

    def kernels(self, by: str) -> pl.DataFrame | None:
        """Return estimated `count` and `total_ns` of kernels by `name`.

        The result is None if no kernels of the host were recorded. A device's tasks need no estimates, because
        `overhead_budget` leaves out none of them; for them, the result is also None.

        Args:
            by: what `name` contains: "type", "full_name", "module" or "part". Kernels whose value is unknown are left
                out. For "part", kernels outside of all steps are left out, too.
        """
        sums, names = self.stream.sums_by_place, self.stream.names
        if sums is None:
            return None
        if by == "part":
            sums = sums.filter("in_step")
        keys = {"module": self.stream.texts.gather(sums["module"]), "part": sums["part"]}
        key = keys[by] if by in keys else names[by].gather(sums["kernel"])
        known = sums.select("place", "count", "total_ns", key.alias("name")).drop_nulls("name")
        known = known.group_by("name", "place").agg(pl.all().sum())
        return sampling.totals(known, ["name"], ["count", "total_ns"], self.sample, self.between)


def totals(
    steps: Steps, spans: pl.DataFrame, sums: pl.DataFrame | None, stream: Stream, pieces: pl.DataFrame
) -> Totals | None:
    """Return the estimated totals; None if `overhead_budget` left out no step.

    Args:
        steps: the steps in use.
        spans: the spans of `operators.self_times`.
        sums: the sums of fine-grained spans by `place`, as `sampling.sum_up`; None if `spans` has all of these spans.
        stream: the kernels.
        pieces: the steps cut into phases, from `phases.pieces`.
    """
    if not sampling.sampled(steps):
        return None
    known = sampling.sum_up(spans, steps) if sums is None else sums
    coarse = spans.filter(pl.col("category") < CATEGORY_FINE)
    between = sampling.between(known, steps, coarse)
    sample = sampling.sample(steps, coarse)
    found = sampling.totals(known, ["name", "category"], ["count", "total_ns", "self_ns"], sample, between)
    return Totals(sample, found, stream, _phases(steps, coarse, _times(pieces), sample), between)


def _phases(steps: Steps, spans: pl.DataFrame, found: pl.DataFrame, sample: sampling.Sample) -> dict[str, Phase]:
    """Return the time of each phase in all steps.

    The spans of phases are recorded in all steps, except those of `_RESTING` while their hooks rest. So only the
    rest of a step that was not sampled is estimated: the time outside of the recorded phases is divided as in the
    sampled steps. There, modules tell which part of it is a forward pass. In a long step (`long_steps`), this time is
    "other", or "not recorded" if hooks were at rest.

    Args:
        steps: the steps in use.
        spans: the coarse spans.
        found: the times of the phases in the sampled steps, as `_times`.
        sample: how the recorded steps stand for all steps.
    """
    wanted = pl.col("content") != tables.TIMES_ALONE
    told = _times(phases.pieces(spans, replace(steps, table=steps.table.with_columns(recorded=wanted))))
    left_out = steps.table.with_row_index("row").filter(pl.col("content") == tables.COARSE)
    rested = sampling.rested(steps, spans, left_out)
    passes = told.filter(pl.col("phase") == phases.FORWARD).join(found.select("row").unique(), on="row", how="semi")
    beside = pl.concat([found, passes.with_columns(-pl.col("ns"))])
    beside = beside.filter(pl.col("phase").is_in([phases.FORWARD, phases.OTHER]))
    resting = pl.col("phase").is_in([*_RESTING, phases.OTHER])
    exact = [found]
    divided = []
    # the sampled steps tell nothing about a step that is far longer than they are, so its time is not divided
    long = long_steps.found(steps)
    usual = pl.lit(True) if long is None else ~pl.col("row").is_in(long.table["row"].implode())
    for rows, unknown, split, rest in (
        (left_out.filter(~rested)["row"], pl.col("phase") == phases.OTHER, beside, phases.OTHER),
        (left_out.filter(rested)["row"], resting, found.filter(resting), UNRECORDED),
    ):
        own = told.filter(pl.col("row").is_in(rows.implode()))
        exact.append(own.filter(usual, ~unknown))
        exact.append(own.filter(~usual).with_columns(pl.col("phase").replace(phases.OTHER, rest)))
        sampled = split.group_by("row", "phase").agg(pl.col("ns").sum())
        divided.append(_divided(sampled, own.filter(usual, unknown), sample))
    sums: dict[str, float] = dict(pl.concat(exact).group_by("phase").agg(pl.col("ns").sum()).iter_rows())
    if skipped := int(steps.table.filter(~wanted)["duration_ns"].sum()):
        sums[UNRECORDED] = sums.get(UNRECORDED, 0) + skipped
    names = [name for name in (*phases.ALL, UNRECORDED) if name in sums or any(name in part for part in divided)]
    return {name: _added(sums.get(name, 0.0), [part[name] for part in divided if name in part]) for name in names}


def _times(pieces: pl.DataFrame) -> pl.DataFrame:
    """Return the time of each phase in each step, `row`, `phase` and `ns`."""
    return phases.by_step(pieces).select("phase", row="step", ns="duration_ns")


def _divided(split: pl.DataFrame, own: pl.DataFrame, sample: sampling.Sample) -> dict[str, Phase]:
    """Divide time of steps that were not sampled among phases, as in the sampled steps around them.

    This is a ratio estimate (Cochran, Sampling Techniques, 6.1): the sum of the time is known.

    Args:
        split: the time of the phases in the sampled steps, `row`, `phase`, `ns`.
        own: the time to divide, `ns`.
        sample: how the recorded steps stand for all steps.
    """
    whole = float(own["ns"].sum())
    if not whole:
        return {}
    found = sampling.estimate(split, ["phase"], ["ns"], sample)
    sampled = split.group_by("phase").agg(pl.col("ns").sum().alias("sampled"))
    rest = found.join(sampled, on="phase").with_columns((pl.col("ns") - pl.col("sampled")).clip(lower_bound=0.0))
    rest = rest.filter(pl.col("ns") >= 1)  # less is an error of rounding
    if rest.height < 2:  # all of it belongs to one phase
        return {rest["phase"].item() if rest.height else phases.OTHER: Phase(whole, None, False)}
    ratio = whole / float(rest["ns"].sum())
    rows = rest.with_columns(pl.col("ns", "ns_error") * ratio).select("phase", "ns", "ns_error").iter_rows()
    return {name: Phase(ns, error, True) for name, ns, error in rows}


def _added(exact: float, parts: list[Phase]) -> Phase:
    """Add up the exact and the estimated times of a phase."""
    errors = [part.error for part in parts if part.scaled]
    known = [error for error in errors if error is not None]
    error = sqrt(sum(each * each for each in known)) if errors and len(known) == len(errors) else None
    return Phase(exact + sum(part.ns for part in parts), error, bool(errors))
