"""Count the operators or kernels of steps, and name the operators that the script calls outside of the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.phases import OTHER

#: operators outside of the model are named if each makes up at least this part of their number, the three most frequent
#: at most
FREQUENT: Final = 0.1
MOST: Final = 3


@dataclass(frozen=True)
class Launched:
    """Figures of the operators or kernels of the examined steps.

    Attributes:
        what: the kind of the work, "operators" or "kernels".
        per_step: average number of operators or kernels per step.
        median_ns: median of their durations, in ns.
        behind: median time from the launch to the start of a kernel / mean length of a step; None if unknown.
        in_steps: share of a device's kernels that the steps launched; 0 if no device was recorded.
        outside: names of the most frequent operators outside of all phases, from `outside`.
        aside: average number of operators per step that the script calls outside of all phases.
    """

    what: str
    per_step: float
    median_ns: int
    behind: float | None = None
    in_steps: float = 0.0
    outside: Sequence[str] = ()
    aside: float = 0.0

    @property
    def queued(self) -> bool:
        """Return whether other threads launch most of the work, after the script called it outside of all phases.

        So do MindSpore's own threads. Then the phase in which the work is launched is no place in the script.
        """
        return self.what == "kernels" and 2 * self.aside > self.per_step


def found(what: str, ran: pl.DataFrame, during: pl.DataFrame) -> Launched | None:
    """Return the figures of operators or kernels in some steps; None if there are none.

    Args:
        what: the kind of the work, "operators" or "kernels".
        ran: the operators or kernels, `start_ns`, `end_ns`.
        during: the steps.
    """
    inside = ran.filter(intervals.locate(ran["start_ns"], during).is_not_null())
    if inside.is_empty():
        return None
    median = int(inside.select((pl.col("end_ns") - pl.col("start_ns")).median()).item())
    return Launched(what, inside.height / during.height, median)


def outside(ran: pl.DataFrame, names: pl.Series, cut: pl.DataFrame) -> tuple[Sequence[str], int]:
    """Return the names of the operators that are called most often outside of all phases, and the number of all calls.

    The most frequent name comes first. An operator that another one calls does not count.

    Args:
        ran: the operators of the stepping thread, `name` (row of `names`), `start_ns`, `end_ns`.
        names: texts by row.
        cut: the steps cut into phases, from `phases.pieces`.
    """
    calls = aside(ran, cut)
    counts = calls.group_by("name").len().with_columns(text=pl.lit(names).gather("name"))
    often = counts.filter(pl.col("len") >= FREQUENT * pl.col("len").sum())
    return tuple(often.sort("len", "text", descending=[True, False])["text"].head(MOST)), calls.height


def aside(ran: pl.DataFrame, cut: pl.DataFrame) -> pl.DataFrame:
    """Return the operators that the script calls outside of all phases, and not those that they call themselves.

    Args:
        ran: the operators of the stepping thread, `start_ns`, `end_ns`.
        cut: the steps cut into phases, from `phases.pieces`.
    """
    calls = ran.filter(intervals.locate(ran["start_ns"], cut.filter(phase=OTHER).sort("start_ns")).is_not_null())
    calls = calls.sort("start_ns", "end_ns", descending=[False, True])
    return calls.filter(pl.col("start_ns") >= pl.col("end_ns").cum_max().shift(1, fill_value=0))
