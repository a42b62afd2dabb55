"""Find kernels of a device that took far longer than the same kernel in other steps, as where programs share a device.

A device that several programs share runs them in turns. A kernel that is running when another program gets its turn
takes longer by the length of this turn, however short the kernel is. So kernels of other programs lengthen few kernels,
by a similar time, and leave the others as they are. Kernels whose work differs from step to step look different: their
times have all lengths, or most kernels of a step change together.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.model import tables

#: a kernel is long if it takes at least `TIMES` * its usual time, and at least `LEAST_NS` longer than usual
TIMES: Final = 3
LEAST_NS: Final = 200_000
#: a kernel takes a usual time if it takes at most `NEAR` * its usual time, or at most `NEAR_NS` longer than usual
NEAR: Final = 1.5
NEAR_NS: Final = 50_000
#: number of steps that must have a kernel, so that its usual time is known
ENOUGH: Final = 8
#: this quantile of the times of a kernel is its usual time: a kernel may be interrupted in most steps
USUAL: Final = 0.25
#: Times of a kernel vary by nature if (times that are neither usual nor long) / (long times) is larger than this
BETWEEN: Final = 0.25
#: kernels of a step change together if more than this share of them takes more than `NEAR` * the usual time
TOGETHER: Final = 0.2
#: at least `FEW` kernels at two places of a step must take `ABRUPT` times as long as usual: only an interruption by
#: another program lengthens a short kernel as much as a long one
ABRUPT: Final = 10
FEW: Final = 3
#: long kernels are reported if their excess is at least this share of the time of all kernels
SHARE: Final = 0.01

_SAME: Final = ("kernel", "part", "shapes", "lane")
_PLACE: Final = (*_SAME, "alike", "place")


@dataclass(frozen=True)
class LongKernels:
    """The kernels that took far longer than the same kernel in other steps.

    Attributes:
        count: the number of these kernels.
        of: the number of all kernels in the steps that were examined; exchanges between ranks do not count.
        excess_ns: the sum of (time of a kernel - its usual time) over these kernels.
        share: `excess_ns` / time of all kernels in these steps.
        rows: these kernels: `row` in the table of kernels, `excess_ns`.
    """

    count: int
    of: int
    excess_ns: int
    share: float
    rows: pl.DataFrame


def found(recording: tables.Recording, table: pl.DataFrame) -> LongKernels | None:
    """Return the long kernels of a device; None without evident interruptions, and without a device.

    Kernels of different steps are the same if they have the same name, shapes, part and stream, and the same place
    among the kernels for which these are equal, in steps with the same number of such kernels. Kernels that run while
    another kernel of the job runs do not count, and neither do exchanges between ranks.

    Args:
        recording: the run.
        table: the kernels, with the columns of `tables.KERNELS`.
    """
    device = recording.device
    if device is None or device.on_host or table.is_empty() or not bool((table["duration_ns"] >= LEAST_NS).any()):
        return None
    own = _own(device, table)
    whole = int(own["duration_ns"].sum())
    usual = pl.col("duration_ns").quantile(USUAL, "lower").over(_PLACE)
    placed = (
        own.sort("step", "start_ns")
        .with_columns(place=pl.int_range(pl.len()).over("step", *_SAME), alike=pl.len().over("step", *_SAME))
        .with_columns(usual=usual, steps=pl.len().over(_PLACE))
        .with_columns(more=pl.col("duration_ns").cast(pl.Int64) - pl.col("usual").cast(pl.Int64))
    )
    slower = pl.col("duration_ns") > NEAR * pl.col("usual")
    long = (pl.col("duration_ns") >= TIMES * pl.col("usual")) & (pl.col("more") >= LEAST_NS)
    between = slower & (pl.col("more") > NEAR_NS) & ~long
    known = placed.with_columns(
        long=long & (pl.col("steps") >= ENOUGH) & ~pl.col("beside"),
        together=slower.mean().over("step") > TOGETHER,
        varies=between.sum().over(_PLACE) > BETWEEN * long.sum().over(_PLACE),
    )
    chosen = known.filter("long", ~pl.col("together"), ~pl.col("varies"))
    abrupt = chosen.filter(pl.col("duration_ns") >= ABRUPT * pl.col("usual"))
    excess = int(chosen["more"].sum())
    share = excess / max(whole, 1)
    if share < SHARE or abrupt.height < FEW or abrupt.select(_PLACE).n_unique() < 2:
        return None
    return LongKernels(chosen.height, own.height, excess, share, chosen.select("row", excess_ns="more"))


def _own(device: tables.Device, table: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels of the steps: no exchanges; `beside` tells whether another kernel ran meanwhile."""
    ends = pl.col("start_ns") + pl.col("duration_ns")
    ordered = table.with_row_index("row").sort("start_ns").with_columns(end_ns=ends)
    before, after = pl.col("end_ns").cum_max().shift(1), pl.col("start_ns").shift(-1)
    beside = (before > pl.col("start_ns")).fill_null(False) | (after < pl.col("end_ns")).fill_null(False)
    return device.exchanging(ordered.with_columns(beside=beside), "anti").drop_nulls("step")


def excess(long: LongKernels | None, table: pl.DataFrame) -> pl.Series:
    """Return for each kernel by how many ns it took longer than usual if it is long, otherwise 0.

    Args:
        long: the long kernels, from `found` for the same table; None without any.
        table: the kernels, with the columns of `tables.KERNELS`.
    """
    more = pl.zeros(table.height, dtype=pl.Int64, eager=True).rename("excess_ns")
    return more if long is None else more.scatter(long.rows["row"], long.rows["excess_ns"])
