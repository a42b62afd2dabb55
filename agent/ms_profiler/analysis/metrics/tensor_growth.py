"""Find out whether tensor memory grows with each step, and which code allocated the memory that is not released."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import growth, intervals, memory, phases
from ms_profiler.analysis.metrics.growth import Growth
from ms_profiler.analysis.metrics.stack_tree import Function
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.names import DEVICE_TENSORS

#: smallest growth of a leak, in bytes and as a part of the memory before; it is small because tensor bytes are exact
LEAST: Final = 1 << 20
LEAST_PART: Final = 0.01
#: Memory leaks in a place of the code only if the place allocates memory in at least this part of the sampled steps,
#: and this memory stays in use.
MOST_STEPS: Final = 0.6
#: the code to blame is named only if its `Owner.share` is at least this
NAMED: Final = 0.2
_ON_DEVICE: Final = "^" + DEVICE_TENSORS.format("(.+)", "allocated") + "$"


@dataclass(frozen=True)
class Owner:
    """The code that allocated memory which is not released.

    Attributes:
        operator: name of the operator; None if the memory was allocated outside of all operators.
        module: path of the module; None if unknown.
        phase: phase of the steps; None outside of all phases.
        per_step: bytes that this code allocates in each step and that are not released.
        share: unreleased bytes of this code / unreleased bytes of all code that allocates in most of the steps.
        place: function and line of the script that allocated the memory; empty if they were not recorded.
    """

    operator: str | None
    module: str | None
    phase: str | None
    per_step: float
    share: float
    place: str = ""


def found(recording: tables.Recording, used: Steps, compiled: list[int]) -> Growth | None:
    """Return the growth of tensor memory per step; None if no growth is evident, or if the memory is unknown.

    Args:
        recording: the run.
        used: the steps in use.
        compiled: steps (rows of `used.table`) that compiled something.
    """
    by_step = memory.by_step(recording.tensors, used)
    ends = used.table.select("number", time_ns="end_ns")
    samples = by_step.join(ends, on="number").select("time_ns", held="end")
    leak = growth.growth(samples, used, compiled, LEAST, LEAST_PART)
    return None if leak is None else replace(leak, tensors=True)


def on_device(recording: tables.Recording, used: Steps, compiled: list[int]) -> Growth | None:
    """Return the growth of tensor memory on the device that grows most; None if none grows, or if it is unknown.

    Args:
        recording: the run.
        used: the steps in use.
        compiled: steps (rows of `used.table`) that compiled something.
    """
    devices = recording.names.gather(recording.counters["name"]).str.extract(_ON_DEVICE)
    looks = recording.counters.with_columns(devices.alias("device"), held=pl.col("value").cast(pl.Int64, strict=False))
    looks = looks.filter(pl.col("process") == used.process, pl.col("value") >= 0).drop_nulls(["device", "held"])
    found = []
    for (device,), samples in looks.group_by("device", maintain_order=True):
        leak = growth.growth(samples.select("time_ns", "held"), used, compiled, LEAST, LEAST_PART)
        if leak is not None:
            found.append(replace(leak, tensors=True, device=str(device)))
    return max(found, key=lambda leak: (leak.total, leak.device), default=None)


def owner(blocks: pl.DataFrame, leak: Growth, used: Steps, recording: tables.Recording) -> Owner | None:
    """Return the code that allocated most of the memory that is not released; None if unknown.

    The code is an operator in a module. In most of the sampled steps, the operator allocated memory that was still in
    use at the end of the last sampled step.

    Args:
        blocks: the memory blocks with their owners, from `tensor_owners.owned`.
        leak: the growth of the memory.
        used: the steps in use.
        recording: the run.
    """
    numbers = pl.col("number").is_between(leak.first, leak.last)
    looked_at = used.table.filter(numbers, pl.col("content") == tables.ALL_OF_IT)
    if looked_at.is_empty() or blocks.is_empty():
        return None
    end_ns = looked_at["end_ns"].max()
    alive = blocks.with_columns(step=intervals.locate(blocks["allocated_ns"], looked_at)).filter(
        pl.col("step").is_not_null(), pl.col("released_ns").is_null() | (pl.col("released_ns") >= end_ns)
    )
    sums = alive.group_by("operator", "module", "phase").agg(
        pl.col("size").sum().alias("bytes"), pl.col("step").n_unique().alias("steps")
    )
    steady = sums.filter(pl.col("steps") >= MOST_STEPS * looked_at.height)
    if steady.is_empty():
        return None
    top = steady.sort("bytes", "operator", "module", descending=[True, False, False]).row(0, named=True)
    share = top["bytes"] / max(int(steady["bytes"].sum()), 1)
    if share < NAMED:
        return None
    key = ["operator", "module", "phase"]
    its = alive.join(pl.DataFrame([top], schema=sums.schema).select(key), on=key, how="semi", nulls_equal=True)
    place = _place(its, recording.places, recording.names)
    return Owner(top["operator"], top["module"], top["phase"], top["bytes"] / looked_at.height, share, place)


def _place(blocks: pl.DataFrame, places: pl.DataFrame, names: pl.Series) -> str:
    """Return the innermost function of the script that allocated most of the blocks, and its line."""
    rows = blocks.select("address", "allocated_ns").join(places, on=["address", "allocated_ns"])
    frames = rows.select("address", "allocated_ns", "depth", "line").with_columns(
        names.gather(rows["function"]).alias("function"), names.gather(rows["file"]).alias("file")
    )
    own = pl.col("file").map_elements(lambda file: Function("", file, 0).own, pl.Boolean)
    first = frames.filter(own).sort("depth").unique(["address", "allocated_ns"], keep="first", maintain_order=True)
    counts = first.group_by("function", "file", "line").len().sort("len", "line", descending=[True, False])
    if counts.is_empty():
        return ""
    function, file, line, _ = counts.row(0)
    return f"{function} at {file}:{line}"


def words(leak: Growth | None, blocks: Callable[[], pl.DataFrame], used: Steps, recording: tables.Recording) -> str:
    """Return text about the code that makes memory grow, as the end of a sentence; empty if tensors do not grow.

    Args:
        leak: the growth of the memory; None without growth.
        blocks: a function that returns the memory blocks with their owners, as `tensor_owners.owned` does.
        used: the steps in use.
        recording: the run.
    """
    if leak is None or not leak.tensors:
        return ""
    found = owner(blocks(), leak, used, recording)
    if found is None:
        return "; its origin is unknown: no operator allocated, in most of the steps, memory that is still in use"
    where = f" in {found.module}" if found.module else ""
    during = f" ({found.phase})" if found.phase not in (None, phases.OTHER) else ""
    line = f", called from {found.place}" if found.place else ""
    return f"; {found.share * 100:.0f} % of it was allocated by {found.operator or 'no operator'}{where}{during}{line}"
