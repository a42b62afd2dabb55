"""Collect the part of the page about memory: its curve, its peak, and, if recorded, what held it at the peak."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, memory, tensor_owners
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.page.curves import thinned

#: largest number of owners that are listed
_ROWS: Final = 40
_OUTSIDE: Final = "outside of all phases"


def content(measures: Measures, origin: int) -> dict[str, Any]:
    """Return the memory curve of the allocator that held most memory, and what held the memory at its peak.

    Args:
        measures: the measures of the run.
        origin: the zero of the returned times, ns since the epoch.
    """
    held = measures.held.sort("time_ns")
    table = held.select(pl.col("time_ns") - origin, pl.col("allocated").alias("value"), pl.col("reserved"))
    curve = thinned(table.rename({"time_ns": "time"})).to_dict(as_series=False)
    return {**curve, "component": held["component"][0] if held.height else None, "peak": _peak(measures, held, origin)}


def _peak(measures: Measures, held: pl.DataFrame, origin: int) -> dict[str, Any] | None:
    known = held.drop_nulls("allocated")
    if known.is_empty():
        return None
    row = known["allocated"].arg_max() or 0
    time, size = int(known["time_ns"][row]), int(known["allocated"][row])
    steps = measures.steps.table
    at = intervals.locate(pl.Series([time]), steps)[0]
    tree = measures.module_facts[0]
    parameters = [] if tree.is_empty() else _parameters(tree)
    return {
        "time": time - origin,
        "bytes": size,
        "step": None if at is None else int(steps["number"][at]),
        "growth": [] if at is None else _growth(measures, known, int(steps["start_ns"][at]), time),
        "owners": _owners(measures, time),
        "parameters": parameters,
        "why": memory.NO_MEMORY,
    }


def _growth(measures: Measures, known: pl.DataFrame, begin: int, peak: int) -> list[dict[str, Any]]:
    """Return the bytes held when the step of the peak began, and the bytes that each phase of the step added."""
    before = known.filter(pl.col("time_ns") < begin)
    first = int(before["allocated"][-1]) if before.height else 0
    inside = known.filter(pl.col("time_ns").is_between(begin, peak))
    change = inside["allocated"].diff().fill_null(int(inside["allocated"][0]) - first)
    pieces = measures.pieces.sort("start_ns")
    phase = pieces["phase"].gather(intervals.locate(inside["time_ns"], pieces)).fill_null(_OUTSIDE)
    sums = pl.DataFrame({"phase": phase, "bytes": change}).group_by("phase", maintain_order=True).agg(pl.sum("bytes"))
    return [{"phase": None, "bytes": first}, *sums.to_dicts()]


def _owners(measures: Measures, peak: int) -> list[dict[str, Any]]:
    """Return the operators whose allocations were alive at the peak, if single allocations were recorded."""
    device = measures.recording.device
    known = tensor_owners.allocations(measures.blocks)
    own = memory.of_host(measures.memory, measures.recording)
    if device is not None and (not device.allocations.is_empty() or not own):
        known = device.allocations
    if known.is_empty():
        return []
    there = known.filter(
        pl.col("allocated_ns") <= peak, pl.col("released_ns").is_null() | (pl.col("released_ns") > peak)
    )
    sums = there.group_by("name").agg(pl.col("size").sum().alias("bytes"), pl.len().alias("count"))
    return sums.sort("bytes", "name", descending=[True, False]).head(_ROWS).to_dicts()


def _parameters(tree: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the parameter sizes of modules without submodules, the largest first."""
    modules = tree.filter(pl.col("leaf"), pl.col("parameter_bytes") > 0)
    sizes = modules.select("module", pl.col("parameter_bytes").alias("bytes"))
    return sizes.sort("bytes", "module", descending=[True, False]).head(_ROWS).to_dicts()
