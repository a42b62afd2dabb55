"""Assign every moment of a step to one part: computing, or the reason why nothing was computed.

A piece is an interval with one part. The lengths of a step's pieces add up to the length of the step exactly.
"""

from typing import Final, cast

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.phases import ALL, COMPUTING as COMPUTING_PHASES, NAMES, OTHER
from ms_profiler.analysis.metrics.scheduling import CELLS
from ms_profiler.store.format import Category

COMPUTING: Final = "computing"
COMMUNICATION: Final = NAMES[Category.COMMUNICATION]
GARBAGE: Final = "garbage collection"
DATA: Final = NAMES[Category.DATA]
COMPILE: Final = NAMES[Category.COMPILE]
CHECKPOINT: Final = NAMES[Category.CHECKPOINT]
SYNC: Final = NAMES[Category.SYNC]
LAUNCH: Final = "launch"
HOST: Final = "host"
BLOCKED: Final = "blocked"
RUNNABLE: Final = "runnable"
UNKNOWN: Final = "unknown"
PARTS: Final = (
    *(COMPUTING, COMMUNICATION, GARBAGE, DATA, COMPILE, CHECKPOINT, SYNC),
    *(LAUNCH, HOST, BLOCKED, RUNNABLE, UNKNOWN),
)
#: phases in which the host does something else than queue work
WAITS: Final = (DATA, COMPILE, CHECKPOINT)
#: if the gap between two operators of the script lasts up to this many ns, the gap counts as launching the second
#: operator. Python, the framework's dispatch and its queue take up to hundreds of microseconds, or a few milliseconds
#: if threads share a processor. In a longer gap, the host did something else
GAP: Final = 5_000_000
#: the limit of a gap as in `GAP`, but in ns of processor time of the stepping thread. It replaces `GAP` if this
#: processor time is known and the stepping thread itself runs the operators. PyTorch's dispatch and the call of a
#: module take up to 50 us; a layer of pure Python that took 0.76 ms counted as launching with a limit of 1 ms
GAP_RUN: Final = 300_000
#: outside of the model, nothing of ours runs between two operators, and no autograd. There, the limit is this multiple
#: of the median gap in the model, but at least `GAP_LEAST` ns and at most `GAP_RUN`. A metric in Python had 200 us
#: between two reads, where the median in the model was 4 us. On a faster processor, it had 35 us, and the model 1 us
GAP_FACTOR: Final = 10
GAP_LEAST: Final = 30_000
#: within this time in ns, an operator that was queued begins to run if nothing else runs
QUEUED: Final = 100_000
#: an operator that runs on a processor for up to this many ns counts as launching, because its dispatch takes as long
#: as its work
SHORT: Final = 20_000
#: if a thread was off the processor for less than this fraction of the idle time between two samples, the time off the
#: processor is ignored
JITTER: Final = 0.05
#: temporary part of the moments to which none of the first rules of `parts` applies; `_shared_out` replaces this part
_IDLE: Final = "idle"


def parts(
    cut: pl.DataFrame,
    computing: pl.DataFrame,
    communicating: pl.DataFrame,
    drained: pl.DataFrame,
    operators: pl.DataFrame | None,
    collecting: pl.DataFrame | None = None,
    cells: pl.DataFrame | None = None,
    beside: bool = False,
) -> pl.DataFrame:
    """Cut steps into pieces, each with one part: computing, or a reason why nothing was computed.

    The rules are tried in this order, and the first rule that applies decides about a moment:

    - Something is computed.
    - Data is exchanged.
    - Python collects garbage.
    - The host waits for data, compiles or writes a checkpoint.
    - The host reads a value, or can queue nothing because of reads.
    - The stepping thread was asleep or blocked, or waited for a processor.
    - An operator is launched: a short operator runs, or the next operator starts soon. Outside of the model, this must
      be as soon as launches in the model take, and nothing is launched before a wait in which no operator begins.
    - The host runs other code.
    - Nothing is known.

    So a moment in which a thread waits for a processor while it computes counts as computing. If it waits for a
    processor while it waits for data, the moment counts as waiting for data.

    Args:
        cut: the steps cut into phases, from `phases.pieces`, only the selected steps.
        computing: intervals in which something was computed.
        communicating: intervals in which data was exchanged.
        drained: intervals in which the host could queue nothing because of reads, from `reads.drained`.
        operators: intervals of all operators or kernels. None if they were not recorded; then no moment counts as
            launching.
        collecting: intervals in which Python collected garbage; None if unknown.
        cells: when the stepping thread was off its processor, from `scheduling.cells`; None if unknown.
        beside: whether operators run on other threads, for which the stepping thread may wait.

    Returns:
        One row per piece: `step`, `part`, `phase`, `start_ns`, `end_ns`, sorted by time.
    """
    codes = {phase: code for code, phase in enumerate(ALL, 1)}
    phases = cut.with_columns(code=pl.col("phase").replace_strict(codes, return_dtype=pl.Int64))
    known = (pl.DataFrame(schema=CELLS) if cells is None else cells).with_row_index("cell", 1)
    sets = {
        "phase": phases,
        COMPUTING: computing,
        COMMUNICATION: communicating,
        GARBAGE: cut.head(0) if collecting is None else collecting,
        "drained": drained,
        "ran": cut.head(0) if operators is None else operators,
        "cell": known,
    }
    line = intervals.timeline(sets, {"phase": "code", "cell": "cell"}).filter(pl.col("phase") > 0)
    phase = pl.col("phase").replace_strict({code: name for name, code in codes.items()}, return_dtype=pl.String)
    part = (
        pl.when(pl.col(COMPUTING) > 0)
        .then(pl.lit(COMPUTING))
        .when((pl.col(COMMUNICATION) > 0) | (phase == COMMUNICATION))
        .then(pl.lit(COMMUNICATION))
        .when(pl.col(GARBAGE) > 0)
        .then(pl.lit(GARBAGE))
        .when(phase.is_in(WAITS))
        .then(phase)
        .when((pl.col("drained") > 0) | (phase == SYNC))
        .then(pl.lit(SYNC))
        .otherwise(pl.lit(_IDLE))
    )
    line = line.join_asof(cut.select("step", "start_ns").sort("start_ns"), on="start_ns")
    line = line.select("step", part.alias("part"), phase.alias("phase"), "ran", "cell", *intervals.BOUNDS)
    idle = _shared_out(line, known, operators is not None, beside)
    line = pl.concat([line.filter(pl.col("part") != _IDLE).select(idle.columns), idle]).sort("start_ns")
    return intervals.merge(line, "step", "part", "phase").select("step", "part", "phase", *intervals.BOUNDS)


def _shared_out(pieces: pl.DataFrame, cells: pl.DataFrame, operators: bool, beside: bool) -> pl.DataFrame:
    """Divide each idle piece into its final parts: first blocked, then waiting for a processor, then the rest."""
    length = pl.col("end_ns") - pl.col("start_ns")
    # a gap lasts from one operator to the next one. A phase or a sample that begins in between does not end the gap
    apart = (pl.col("part") != _IDLE) | (pl.col("ran") > 0)
    fresh = apart | apart.shift(1) | (pl.col("step") != pl.col("step").shift(1))
    idle = (
        pieces.with_columns(
            gap=fresh.fill_null(True).cum_sum(),
            unused=_before_waits(pieces),
            around=_outside(),
            ran=pl.col("ran") > 0,
        )
        .filter(pl.col("part") == _IDLE)
        .with_columns(length=length)
        .with_columns(long=pl.col("length").sum().over("gap") > GAP)
        # in these phases, other threads that queue or run operators may block the host, but not in a long gap: there,
        # a function of the script sleeps, such as a hook that the backward pass calls
        .with_columns(elsewhere=pl.lit(beside) & pl.col("phase").is_in(COMPUTING_PHASES) & ~pl.col("long"))
        .join(cells.select(pl.col("cell").cast(pl.Int64), "off_ns", "queued_ns"), on="cell", how="left")
        .with_columns(room=pl.col("length").filter(~pl.col("elsewhere")).sum().over("cell"))
    )
    off = (pl.col("off_ns") / pl.col("room").clip(lower_bound=1)).clip(0.0, 1.0)
    off = pl.when(pl.col("elsewhere") | (off < JITTER)).then(0.0).otherwise(off).fill_null(0.0)
    queued = (pl.col("queued_ns") / pl.col("off_ns").clip(lower_bound=1)).fill_null(0.0)
    reported = pl.col("queued_ns").is_not_null()
    idle = (
        idle.with_columns(away=(pl.col("length") * off).cast(pl.Int64), queued=queued, reported=reported)
        .with_columns(waiting=(pl.col("away") * pl.col("queued")).cast(pl.Int64))
        .with_columns(
            ran_ns=(pl.col("length") - pl.col("away")).sum().over("gap"),
            seen=pl.col("off_ns").is_not_null(),
            around=pl.col("around").all().over("gap"),
        )
    )
    model = pl.col("phase").is_in(COMPUTING_PHASES)
    usual = idle.filter(model & ~pl.col("ran")).unique("gap")["ran_ns"].median() or GAP_RUN
    least = min(max(GAP_LEAST, GAP_FACTOR * cast(float, usual)), GAP_RUN)
    run = pl.when("around").then(least).otherwise(GAP_RUN)
    short = pl.when(pl.col("seen") & ~pl.lit(beside)).then(run).otherwise(GAP)
    near = (pl.col("ran_ns") <= short) & (model | ~pl.col("unused") | ~pl.col("seen"))
    launches = pl.col("ran") | pl.col("elsewhere") | near | (~pl.col("seen") & model)
    rest = (
        pl.when(pl.lit(operators) & launches)
        .then(pl.lit(LAUNCH))
        .when("seen")
        .then(pl.lit(HOST))
        .otherwise(pl.lit(UNKNOWN))
    )
    asleep, ready = pl.col("start_ns") + pl.col("away") - pl.col("waiting"), pl.col("start_ns") + pl.col("away")
    away = pl.when("reported").then(pl.lit(BLOCKED)).otherwise(pl.lit(UNKNOWN))
    found = [
        idle.select("step", away.alias("part"), "phase", "start_ns", asleep.alias("end_ns")),
        idle.select("step", pl.lit(RUNNABLE).alias("part"), "phase", asleep.alias("start_ns"), ready.alias("end_ns")),
        idle.select("step", rest.alias("part"), "phase", ready.alias("start_ns"), "end_ns"),
    ]
    return pl.concat(found).filter(pl.col("end_ns") > pl.col("start_ns"))


def _outside() -> pl.Expr:
    """Return whether a piece and its neighbours in the step lie outside of the model, between operators or reads."""
    outside = pl.col("phase").is_in([OTHER, SYNC])
    near = outside & (pl.col("step") == pl.col("step").shift(1)) & (pl.col("step") == pl.col("step").shift(-1))
    return (near & outside.shift(1) & outside.shift(-1)).fill_null(False)


def _before_waits(pieces: pl.DataFrame) -> pl.Series:
    """Return for each piece whether the next event is a wait of the host during which nothing begins to compute.

    Before this wait, the host queued nothing: queued work would run before the end of the wait, or soon after the begin
    of a short wait. A callback may read many values in 30 us each, and work with each of them.

    Args:
        pieces: the pieces of `_shared_out`, sorted by time.
    """
    apart = (pl.col("start_ns") != pl.col("end_ns").shift(1)).fill_null(True).cum_sum()
    marked = pieces.with_columns(apart=apart).select(
        "part",
        "ran",
        "apart",
        wait=pl.col("phase").is_in([*WAITS, SYNC]),
        run=pl.struct("phase", "apart").rle_id(),
        start_ns="start_ns",
    )
    computes = (pl.col("part") == COMPUTING) | (pl.col("ran") > 0)
    marked = marked.with_columns(
        last=(pl.col("run") != pl.col("run").shift(-1)).fill_null(True),
        next_ns=pl.when(computes).then("start_ns").backward_fill().over("apart"),
        begun_ns=pl.col("start_ns").min().over("run"),
    )
    # the pieces of a wait before its last one only pass on what follows
    alone = (pl.col("next_ns") - pl.col("begun_ns") >= QUEUED).fill_null(True)
    event = pl.when(computes).then(pl.lit(False)).when(pl.col("wait") & pl.col("last") & alone).then(pl.lit(True))
    return marked.select(event.alias("unused"), "apart").select(
        pl.col("unused").backward_fill().over("apart").fill_null(False)
    )["unused"]


def by_step(pieces: pl.DataFrame) -> pl.DataFrame:
    """Return the time of each part in each step: `step`, `part`, `duration_ns`.

    Args:
        pieces: the steps cut into pieces with one part each, from `parts`.
    """
    return (
        pieces.group_by("step", "part")
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("duration_ns"))
        .sort("step", "part")
    )


def shares(times: pl.DataFrame) -> dict[str, float]:
    """Return the share of each part in the time of the steps: all of `PARTS`, and other parts that occur.

    share = time of the part / time of all parts, both summed over the steps

    Args:
        times: the time of each part in each step, from `by_step`.
    """
    total = max(int(times["duration_ns"].sum()), 1)
    sums = dict(times.group_by("part").agg(pl.col("duration_ns").sum()).iter_rows())
    return {part: sums.get(part, 0) / total for part in dict.fromkeys([*PARTS, *sorted(sums)])}
