"""What bounds each step: computing, or which wait; the parts of a step add up to it exactly."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.phases import ALL, COMPUTING as COMPUTING_PHASES, NAMES
from ms_profiler.store.format import Category

COMPUTING: Final = "computing"
COMMUNICATION: Final = NAMES[Category.COMMUNICATION]
DATA: Final = NAMES[Category.DATA]
COMPILE: Final = NAMES[Category.COMPILE]
CHECKPOINT: Final = NAMES[Category.CHECKPOINT]
SYNC: Final = NAMES[Category.SYNC]
LAUNCH: Final = "launch"
HOST: Final = "host"
PARTS: Final = (COMPUTING, COMMUNICATION, DATA, COMPILE, CHECKPOINT, SYNC, LAUNCH, HOST)
#: phases in which the host is known to do something else than queueing work
_WAITS: Final = (DATA, COMPILE, CHECKPOINT)
#: ns between two operators of the script that are launching the second one: Python, the framework's dispatch and its
#: queue take up to hundreds of microseconds, or a few milliseconds where threads have to share a processor; in anything
#: longer the host did something else
GAP: Final = 5_000_000
#: ns up to which an operator on a processor is its own launch: its dispatch takes as long as its work
SHORT: Final = 20_000


def parts(
    cut: pl.DataFrame,
    computing: pl.DataFrame,
    communicating: pl.DataFrame,
    drained: pl.DataFrame,
    operators: pl.DataFrame | None,
) -> pl.DataFrame:
    """Cut steps into pieces of one part each.

    At every moment of a step the first of these that holds: something computes; data is exchanged; the host waits for
    data, compiles or writes a checkpoint; it reads a value, or cannot queue anything because of reads; an operator is
    launched (a short one runs, or the host is in the model or its optimizer, or the script's next one starts within
    `GAP` of the one before); the host does something else.

    Args:
        cut: of `phases.pieces`, of the steps that are asked for.
        computing: when something computed.
        communicating: when data was exchanged.
        drained: of `reads.drained`.
        operators: when operators or kernels ran, however short; None where they were not recorded, and then nothing is
            known of launches.

    Returns:
        `step`, `part`, `start_ns`, `end_ns`, by time.
    """
    codes = {phase: code for code, phase in enumerate(ALL, 1)}
    phases = cut.with_columns(code=pl.col("phase").replace_strict(codes, return_dtype=pl.Int64))
    ran = cut.head(0) if operators is None else operators
    sets = {"phase": phases, COMPUTING: computing, COMMUNICATION: communicating, "drained": drained, "ran": ran}
    line = intervals.timeline(sets, {"phase": "code"}).filter(pl.col("phase") > 0)
    phase = pl.col("phase").replace_strict({code: name for name, code in codes.items()}, return_dtype=pl.String)
    part = (
        pl.when(pl.col(COMPUTING) > 0)
        .then(pl.lit(COMPUTING))
        .when((pl.col(COMMUNICATION) > 0) | (phase == COMMUNICATION))
        .then(pl.lit(COMMUNICATION))
        .when(phase.is_in(_WAITS))
        .then(phase)
        .when((pl.col("drained") > 0) | (phase == SYNC))
        .then(pl.lit(SYNC))
        .when((pl.col("ran") > 0) | (phase.is_in(COMPUTING_PHASES) & (operators is not None)))
        .then(pl.lit(LAUNCH))
        .otherwise(pl.lit(HOST))
        .alias("part")
    )
    placed = line.join_asof(cut.select("step", "start_ns").sort("start_ns"), on="start_ns")
    pieces = intervals.merge(placed.select("step", part, *intervals.BOUNDS), "step", "part")
    if operators is None:
        return pieces.select("step", "part", *intervals.BOUNDS)
    brief = (pl.col("part") == HOST) & (pl.col("end_ns") - pl.col("start_ns") <= GAP)
    settled = pieces.with_columns(pl.when(brief).then(pl.lit(LAUNCH)).otherwise("part").alias("part"))
    return intervals.merge(settled, "step", "part").select("step", "part", *intervals.BOUNDS)


def by_step(pieces: pl.DataFrame) -> pl.DataFrame:
    """Return the time of each part in each step: `step`, `part`, `duration_ns`.

    Args:
        pieces: of `parts`.
    """
    return (
        pieces.group_by("step", "part")
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("duration_ns"))
        .sort("step", "part")
    )


def shares(times: pl.DataFrame) -> dict[str, float]:
    """Return what part of the time of all these steps each is, all of `PARTS`.

    share = sum over the steps of the part / sum over the steps of all parts.

    Args:
        times: of `by_step`.
    """
    total = max(int(times["duration_ns"].sum()), 1)
    sums = dict(times.group_by("part").agg(pl.col("duration_ns").sum()).iter_rows())
    return {part: sums.get(part, 0) / total for part in PARTS}
