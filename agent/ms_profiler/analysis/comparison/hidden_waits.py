"""Move the waits for a processor out of the times of modules, where two runs waited for different times.

Other programs take the processor of a thread that computes. The time until the thread gets it again counts as computing
of the module that is running. It says nothing about the module. The thread loses the processor at any moment of its
computing, so each module has a share of the waits that is proportional to its time.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ms_profiler.analysis.comparison.digest import Cell, Digest
from ms_profiler.analysis.metrics import bounds, strain
from ms_profiler.analysis.metrics.measures import Measures

#: hidden waits are moved if they differ by at least this share of the first run's step
DIFFER: Final = 0.05


def waited(measures: Measures, rows: Sequence[int]) -> int | None:
    """Return the mean time in ns for which the stepping thread waited for a processor in some steps.

    The result is None if it is unknown, or if other threads compute: then the waits are no part of the computing.

    Args:
        measures: the measures of the run.
        rows: the rows of the steps.
    """
    recording, steps = measures.recording, measures.steps
    if recording.device is not None or recording.info.framework.get("name") != "torch" or not rows:
        return None
    load = strain.Load(recording, steps, steps.table[sorted(rows)])
    return round(float(load.queued.sum()) * 1e9 / len(rows)) if load.known else None


def apart(first: Digest, second: Digest) -> tuple[Digest, Digest]:
    """Return the digests of two runs, with the hidden waits as cells of their own if they differ enough.

    Args:
        first: the digest of the run before.
        second: the digest of the run after.
    """
    hidden = [_hidden(run) for run in (first, second)]
    if None in hidden or abs((hidden[1] or 0) - (hidden[0] or 0)) < DIFFER * first.step.median_ns:
        return first, second
    return _moved(first, hidden[0] or 0), _moved(second, hidden[1] or 0)


def _hidden(run: Digest) -> int | None:
    """Return the time that the thread waited for a processor while it seemed to compute, ns per step."""
    if run.step.queued_ns is None or run.step.sampled:
        return None
    seen = sum(cell.ns for cell in run.cells if cell.part == bounds.RUNNABLE)
    return max(min(run.step.queued_ns - seen, _computing(run)), 0)


def _computing(run: Digest) -> int:
    return sum(cell.ns for cell in run.cells if cell.part == bounds.COMPUTING)


def _moved(run: Digest, hidden: int) -> Digest:
    """Return a digest with an amount of its computing as waits for a processor."""
    left = 1 - hidden / max(_computing(run), 1)
    cells = [replace(cell, ns=round(cell.ns * left)) if cell.part == bounds.COMPUTING else cell for cell in run.cells]
    rest = sum(cell.ns for cell in run.cells) - sum(cell.ns for cell in cells)
    return replace(run, cells=(*cells, Cell(bounds.RUNNABLE, "", "", "", "", "", rest)))
