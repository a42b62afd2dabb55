"""Write the page report.html: for one run, for the comparison of two runs, or for the ranks of a job."""

import contextlib
import os
from collections.abc import Sequence
from typing import Any, Final

from ms_profiler.analysis.cluster import gathering, job_summary
from ms_profiler.analysis.comparison.comparing import compare
from ms_profiler.analysis.comparison.condensing import condense
from ms_profiler.analysis.driver import engine, inputs
from ms_profiler.analysis.page import content, document, events, side_by_side
from ms_profiler.analysis.writers import core
from ms_profiler.errors import MsProfilerError, StoreError
from ms_profiler.store import layout

#: largest number of events in all timelines of a page
EVENTS_MOST: Final = events.MOST
#: largest number of ranks whose steps and timelines the page shows; further ranks have figures only
RANKS_MOST: Final = 8


def write(paths: Sequence[str], output: str | None = None, *, compared: bool = False) -> str:
    """Write the page, and return its path.

    Args:
        paths: paths of results, from `engine.find`: one result, two results to compare, or the results of all ranks.
        output: the file of the page; by default `layout.REPORT` in the result, or beside the results of several ranks.
        compared: whether the page compares two runs, the earlier one first.

    Raises:
        NotComparableError: the two runs have no common quantity to compare.
        MsProfilerError: the page cannot be written.
        StoreError: nothing in a path can be read, or a symbolic link is in the way.
    """
    several = len(paths) > 1 and not compared
    target = inputs.result(paths[-1])
    folder = os.path.dirname(os.path.abspath(target)) if several else target
    file = output or os.path.join(folder, layout.REPORT)
    if output is None and not several:
        core.refuse_links(target)
    if os.path.islink(file):
        raise StoreError(f"{file} is a symbolic link; nothing is written through one.", "Name another with --output.")
    runs, differences, ranks = _of_ranks(paths) if several else _of_runs(paths)
    try:
        with core.replaced(file, None) as stream:
            document.write(runs, stream, differences, ranks)
    except OSError as error:
        raise MsProfilerError(f"{file} cannot be written: {error.strerror}.", "Name another with --output.") from error
    return file


_Content = tuple[list[dict[str, Any]], dict[str, Any] | None, dict[str, Any] | None]


def _of_runs(paths: Sequence[str]) -> _Content:
    measured = [engine.measured(path) for path in paths]
    runs = [content.content(measures, EVENTS_MOST // len(paths)) for measures in measured]
    if len(measured) == 1:
        return runs, None, None
    before, after = ([condense(measures)] for measures in measured)
    return runs, compare(before, after, (paths[0], paths[-1])).to_dict(), None


def _of_ranks(paths: Sequence[str]) -> _Content:
    """Return the content of a page of ranks. Read one rank after the other, because all may not fit into memory."""
    runs, rows = [], []
    most = EVENTS_MOST // min(len(paths), RANKS_MOST)
    for number, path in enumerate(paths):
        measures = engine.measured(path)
        rows.append(side_by_side.row(measures))
        if number < RANKS_MOST:
            runs.append(content.content(measures, most))
    job = None
    with contextlib.suppress(StoreError):  # if the ranks are not of one job, the page shows each rank separately
        job = job_summary.summary(gathering.gather(list(paths)))
    return runs, None, side_by_side.content(rows, job)
