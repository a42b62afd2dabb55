"""Estimated totals over a whole run, if only some of its steps were recorded."""

from dataclasses import dataclass

import polars as pl

from ms_profiler.analysis.metrics import phases, sampling
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.streams.kernel_stream import Stream
from ms_profiler.store.format import Category


@dataclass(frozen=True)
class Totals:
    """Sums over all steps, each with its standard error, as `sampling.totals` estimates them.

    Attributes:
        steps: the steps in use.
        spans: sums of modules and operators by `name` and `category`: `count`, `total_ns` and `self_ns`, with errors.
        stream: the kernels.
        phases: phase -> its time in all steps, in ns, and the standard error (None if unknown). The times of all phases
            add up to the time of the steps.
    """

    steps: Steps
    spans: pl.DataFrame
    stream: Stream
    phases: dict[str, tuple[float, float | None]]

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
        return sampling.totals(known, ["name"], ["count", "total_ns"], self.steps)


def totals(steps: Steps, spans: pl.DataFrame, stream: Stream, pieces: pl.DataFrame) -> Totals | None:
    """Return the estimated totals; None if `overhead_budget` left out no step.

    Args:
        steps: the steps in use.
        spans: the spans of `operators.self_times`, or their sums by `place` from `sampling.sum_up`.
        stream: the kernels.
        pieces: the steps cut into phases, from `phases.pieces`.
    """
    if not sampling.sampled(steps):
        return None
    sums = spans if "place" in spans.columns else sampling.sum_up(spans, steps)
    times = phases.by_step(pieces).rename({"step": "row", "duration_ns": "ns"})
    found = sampling.estimate(times, ["phase"], ["ns"], steps)
    # Recording lengthens the sampled steps, so the sum of the estimates exceeds the time of all steps. But the time of
    # all steps is known. So the estimates are scaled to it (ratio estimate: Cochran, Sampling Techniques, 6.1).
    ratio = float(steps.table["duration_ns"].sum()) / max(float(found["ns"].sum()), 1.0)
    found = found.with_columns(pl.col("ns", "ns_error") * ratio)
    return Totals(
        steps,
        sampling.totals(sums, ["name", "category"], ["count", "total_ns", "self_ns"], steps),
        stream,
        {row[0]: (row[1], row[2]) for row in found.select("phase", "ns", "ns_error").iter_rows()},
    )
