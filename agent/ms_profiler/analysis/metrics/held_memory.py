"""Evaluate the host's samples of memory, for each process and for the control group with the tightest limit."""

from dataclasses import dataclass

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store import host_metrics as names


@dataclass(frozen=True)
class Held:
    """The memory of a process, from the samples that were taken during the run.

    Attributes:
        process: pid.
        peak: the largest resident memory since the start of the process, as counted by the system, in bytes.
        anonymous: the largest memory in any sample, without memory of files, in bytes; None if it was not read.
        proportional: the largest proportional memory in any sample, in bytes; None if it was not read. In proportional
            memory, a page that n processes share counts as 1/n of a page.
        swapped: the largest swapped memory in any sample, in bytes; None if it was not read.
        major: number of page faults that waited for a disk.
        minor: number of other page faults.
    """

    process: int
    peak: float
    anonymous: float | None
    proportional: float | None
    swapped: float | None
    major: float
    minor: float


@dataclass(frozen=True)
class Group:
    """The control group of the job with the tightest limit of memory.

    Attributes:
        limit: the limit of the group's memory, in bytes.
        most: the largest memory that the group used in any sample, in bytes, including memory for files.
    """

    limit: float
    most: float


def processes(recording: tables.Recording) -> list[Held]:
    """Return the memory of each sampled process, the process with the largest peak first."""
    known = recording.host.filter(pl.col("native_tid") == 0)
    found = []
    for process in known["process"].unique().sort():
        own = known.filter(pl.col("process") == process)
        peak = _most(own, names.PEAK)
        if peak is None:
            continue
        anonymous, shared, swapped = (_most(own, of) for of in (names.ANONYMOUS, names.PROPORTIONAL, names.SWAPPED))
        found.append(Held(process, peak, anonymous, shared, swapped, _sum(own, names.MAJOR), _sum(own, names.MINOR)))
    return sorted(found, key=lambda held: -held.peak)


def group(recording: tables.Recording) -> Group | None:
    """Return the control group with the tightest limit; None if no group of the job has a limit, or none was read."""
    known = recording.host
    limits = known.filter(pl.col("name") == names.GROUP_LIMIT.name)["value"]
    most = _most(known, names.GROUP_MEMORY)
    return None if limits.is_empty() or most is None else Group(limits[-1], most)


def by_step(recording: tables.Recording, steps: Steps) -> pl.DataFrame:
    """Return the largest resident memory of the stepping process in each step.

    The host is sampled in all steps, so steps without records count, too.

    Returns:
        `number` (of the step), `peak` (the largest sample in the step, in bytes). Steps without a sample are left out.
    """
    known = recording.host.filter(pl.col("process") == steps.process, pl.col("name") == names.RESIDENT.name)
    row = intervals.locate(known["start_ns"], steps.table)
    placed = known.select(steps.table["number"].gather(row).alias("number"), peak="value").drop_nulls()
    return placed.group_by("number").agg(pl.col("peak").max()).sort("number")


def _most(known: pl.DataFrame, metric: names.Metric) -> float | None:
    values = known.filter(pl.col("name") == metric.name)["value"].to_list()
    return max(values, default=None)


def _sum(known: pl.DataFrame, metric: names.Metric) -> float:
    rows = known.filter(pl.col("name") == metric.name)
    return float((rows["value"] * (rows["end_ns"] - rows["start_ns"]) / 1e9).sum())
