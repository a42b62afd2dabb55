"""Find causes of slow steps that lie in the machine: other programs, a limit of the control group, swapping.

The slow steps among the steady steps are examined separately from the other steady steps.
"""

from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import host_load, scheduling
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store import host_metrics as names
from ms_profiler.store.host_metrics import SAMPLE

BUSY, THROTTLED, SWAPPING = "busy machine", "throttled", "swapping"

#: a step is slow if length >= SLOW * median length, and length >= SAMPLES * time between two samples of the host
SLOW: Final = 1.5
SAMPLES: Final = 2
#: a cause that affects all steps counts if it takes at least this share of their time
SOME: Final = 0.1
#: other programs are the cause if the stepping thread waits for a processor in at least this share of the steps' time.
#: The share is high, because on a shared virtual machine a job without this problem waited in 12 % of the time
CROWDED: Final = 0.2
#: a cause of slow steps counts if it takes at least this share of their extra time
EXPLAINS: Final = 0.4
#: the control group's limit is a cause if it throttles the group in at least this share of the limit's periods
OFTEN: Final = 0.1
#: a job swaps if it has at least `FAULTS` major page faults a second, and the machine swaps at least `SWAPPED` bytes a
#: second
FAULTS: Final = 100.0
SWAPPED: Final = float(1 << 20)


@dataclass(frozen=True)
class Strain:
    """One cause of slow steps, with its figures.

    Attributes:
        cause: the name of the cause: `BUSY`, `THROTTLED` or `SWAPPING`.
        share: the share of the steps' time that the cause takes.
        steps: the rows of the slow steps that the cause explains; empty if the cause affects all steps.
        slower: mean length of these slow steps / median length; 1 if the cause affects all steps.
        waits: the share of these steps' time in which the stepping thread waited for a processor; None if unknown.
        own: mean number of processors that the job used.
        others: mean number of processors that other processes used; None if unknown.
        stolen: mean number of processors that other virtual machines used.
        processors: number of processors of the machine.
        throttled: the share of the limit's periods in which the control group was throttled.
        quota: the number of processors that the control group may use; None if unknown.
        faults: major page faults of the job per second.
        swapped: bytes that the machine swapped in and out, per second.
        stalled: the larger of two shares of the steps' time: in which some task of the machine waited for memory, and
            in which some task waited for disks.
    """

    cause: str
    share: float
    steps: tuple[int, ...]
    slower: float
    waits: float | None
    own: float
    others: float | None
    stolen: float
    processors: float
    throttled: float
    quota: float | None
    faults: float
    swapped: float
    stalled: float


class Load:
    """The load of the host in each step of `during`.

    Args:
        recording: the run.
        steps: the steps in use.
        during: the steps to examine, with `start_ns` and `end_ns`.
    """

    def __init__(self, recording: tables.Recording, steps: Steps, during: pl.DataFrame) -> None:
        known, self.during = recording.host, during
        self.length = (during["end_ns"] - during["start_ns"]).cast(pl.Float64) / 1e9
        own = known.filter(pl.col("process") == steps.process)

        def counted(*metrics: names.Metric) -> pl.Series | None:
            return host_load.amounts(own, metrics, during)

        def sure(*metrics: names.Metric) -> pl.Series:
            found = counted(*metrics)
            return pl.zeros(during.height, pl.Float64, eager=True) if found is None else found

        # processor time of all processes of the job
        used = host_load.amounts(known, (names.USER, names.SYSTEM), during)
        self.own = sure() if used is None else used
        self.busy = counted(*names.BUSY, *names.INTERRUPTS)
        others = host_load.beside(known, steps.process, during, max(recording.info.world_size, 1))
        self.others = None if others is None else others.clip(0)
        self.stolen = sure(names.STOLEN)
        self.machine = sure(*names.BUSY, *names.INTERRUPTS, names.IDLE, names.DISK_WAIT, names.STOLEN)
        self.periods, self.throttled = sure(names.PERIODS), sure(names.THROTTLED)
        self.faults, self.swapped = sure(names.MAJOR), sure(names.SWAP_IN, names.SWAP_OUT)
        self.stalled, self.waited = (sure(names.PRESSURE[kind][0]) for kind in ("memory", "io"))
        self.quota, self.period = counted(names.QUOTA), counted(names.PERIOD)
        cells = scheduling.cells(recording.looks, steps.process, steps.thread)
        self.known = bool(cells["queued_ns"].is_not_null().any())
        self.queued = waits(cells, during)
        off = waits(cells, during, "off_ns")
        #: seconds in which the stepping thread was asleep or blocked; processor time of the process's other threads
        self.slept, process = (off - self.queued).clip(0), counted(names.USER, names.SYSTEM)
        self.beside = None if process is None else (process - (self.length - off)).clip(0)

    def crowded(self, chosen: pl.Series) -> bool:
        """Return whether other processes or other virtual machines used processors in the chosen steps."""
        used = self.stolen if self.others is None else self.stolen + self.others
        return _sum(used, chosen) >= scheduling.OTHERS * _sum(self.length, chosen)

    def strain(self, cause: str, share: float, chosen: pl.Series, steps: tuple[int, ...], slower: float) -> Strain:
        """Return a cause with its figures in the chosen steps."""

        def rate(amount: pl.Series) -> float:
            return _sum(amount, chosen) / max(_sum(self.length, chosen), 1e-9)

        return Strain(
            cause,
            min(share, 1.0),
            steps,
            slower,
            rate(self.queued) if self.known else None,
            rate(self.own),
            None if self.others is None else rate(self.others),
            rate(self.stolen),
            rate(self.machine),
            _sum(self.throttled, chosen) / max(_sum(self.periods, chosen), 1.0),
            None if self.quota is None or self.period is None else rate(self.quota) / max(rate(self.period), 1.0),
            rate(self.faults),
            rate(self.swapped),
            max(rate(self.stalled), rate(self.waited)),
        )


def _sum(amount: pl.Series, chosen: pl.Series) -> float:
    return float(amount.filter(chosen).sum())


def waits(cells: pl.DataFrame, during: pl.DataFrame, column: str = "queued_ns") -> pl.Series:
    """Return the seconds for which a thread waited for a processor in each interval, or was off it with "off_ns".

    Args:
        cells: the intervals between the samples of the thread, from `scheduling.cells`.
        during: the intervals, `start_ns` and `end_ns`, without overlap, sorted by time.
        column: the column of `cells` to add up.
    """
    known = cells.drop_nulls("queued_ns").with_columns(value=pl.col(column) / (pl.col("end_ns") - pl.col("start_ns")))
    if known.is_empty():
        return pl.zeros(during.height, pl.Float64, eager=True)
    return host_load.integral(known, during["end_ns"]) - host_load.integral(known, during["start_ns"])


def strains(recording: tables.Recording, steps: Steps, rows: list[int], others: bool) -> list[Strain]:
    """Return the causes of slow steps that lie in the machine, the largest share first.

    Args:
        recording: the run.
        steps: the steps in use.
        rows: the rows of the steady steps.
        others: whether other programs are known to keep the processors busy.
    """
    during = steps.table.with_row_index("row").filter(pl.col("row").is_in(rows)).sort("start_ns")
    samples = (recording.names == SAMPLE).arg_true()
    times = recording.metrics.filter(pl.col("name").is_in(samples.implode()), pl.col("process") == steps.process)
    if during.is_empty() or times.height < SAMPLES:
        return []
    load = Load(recording, steps, during)
    every = pl.repeat(True, during.height, dtype=pl.Boolean, eager=True)
    median = float(load.length.median() or 0)  # type: ignore[arg-type]
    first, last = times.select(first=pl.col("time_ns").min(), last=pl.col("time_ns").max()).row(0)
    apart = (last - first) / 1e9 / (times.height - 1)
    slow = (load.length >= SLOW * median) & (load.length >= SAMPLES * apart)
    usual = _causes(load, ~slow, (), 1.0, others)
    if not slow.any():
        return usual
    slow_rows = tuple(during["row"].filter(slow).to_list())
    slower = float(load.length.filter(slow).mean() or 0) / median  # type: ignore[arg-type]
    own = _causes(load, slow, slow_rows, slower, True)
    if not usual:
        return own
    # A cause may affect only the slow steps, or affect them far more than the other steps. But one sample of the host
    # covers many short steps, so the cause seems to affect the short steps around a slow step, too. So there may be two
    # findings about one cause: in all steps, and in the slow steps. The one with the larger share of all time is kept.
    part = _sum(load.length, slow) / _sum(load.length, every)
    found = [*_causes(load, every, (), 1.0, others), *(replace(item, share=item.share * part) for item in own)]
    largest: dict[str, Strain] = {}
    for item in sorted(found, key=lambda item: -item.share):
        largest.setdefault(item.cause, item)
    return list(largest.values())


def _causes(load: Load, chosen: pl.Series, rows: tuple[int, ...], slower: float, others: bool) -> list[Strain]:
    """Return the causes in the chosen steps. In slow steps, a cause must explain enough of their extra time.

    Args:
        load: the load of the host in each step.
        chosen: Boolean, whether each step is chosen.
        rows: the rows of the chosen steps if these are the slow steps, otherwise empty.
        slower: mean length of the slow steps / median length; 1 if all steps are chosen.
        others: whether other programs are known to keep the processors busy.
    """
    whole = _sum(load.length, chosen)
    usual = ~chosen

    def more(amount: pl.Series) -> float:
        """Return the amount in the chosen steps beyond usual: amount - len(rows) * mean amount of the other steps."""
        others = amount.filter(usual)
        each = float(others.sum()) / max(len(others), 1)
        return _sum(amount, chosen) - each * len(rows)

    least = EXPLAINS * more(load.length) if rows else SOME * whole
    queued, limited = more(load.queued), _sum(load.throttled, chosen) >= OFTEN * max(_sum(load.periods, chosen), 1.0)
    found = []
    if limited and max(queued, more(load.length) if rows else 0.0) >= least:
        found.append(load.strain(THROTTLED, max(queued, least) / whole, chosen, rows, slower))
    elif queued >= (least if rows else CROWDED * whole) and others and load.others is not None and load.crowded(chosen):
        found.append(load.strain(BUSY, queued / whole, chosen, rows, slower))
    swaps = _sum(load.faults, chosen) >= FAULTS * whole and _sum(load.swapped, chosen) >= SWAPPED * whole
    if swaps:
        # the system counts only few waits for swapping as waits for memory, and counts no other costs of swapping
        share = more(load.length) if rows else max(_sum(load.stalled, chosen), _sum(load.waited, chosen))
        found.append(load.strain(SWAPPING, share / whole, chosen, rows, slower))
    return sorted(found, key=lambda item: -item.share)
