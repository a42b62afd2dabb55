"""Write report.html of one run, or of two."""

import os
from collections.abc import Sequence

from ms_profiler.analysis.comparison.comparing import compare
from ms_profiler.analysis.comparison.condensing import condense
from ms_profiler.analysis.driver import engine, inputs
from ms_profiler.errors import MsProfilerError, StoreError
from ms_profiler.store import layout


def write(paths: Sequence[str], output: str | None = None) -> str:
    """Write the page, and return where it is.

    Args:
        paths: of `engine.find`, one, or two to compare.
        output: the file; by default `layout.REPORT` in the last result.

    Raises:
        NotComparableError: the two have nothing that can be compared.
        MsProfilerError: it cannot be written.
        StoreError: nothing in a path can be read, or a symbolic link is in the way.
    """
    from ms_profiler.analysis.page import content, document
    from ms_profiler.analysis.writers import core

    measured = [engine.measured(path) for path in paths]
    runs = [content.content(measures) for measures in measured]
    differences = None
    if len(measured) > 1:
        before, after = ([condense(measures)] for measures in measured)
        differences = compare(before, after, (paths[0], paths[-1])).to_dict()
    target = inputs.result(paths[-1])
    file = output or os.path.join(target, layout.REPORT)
    if output is None:
        core.refuse_links(target)
    if os.path.islink(file):
        raise StoreError(f"{file} is a symbolic link; nothing is written through one.", "Name another with --output.")
    try:
        with core.replaced(file, None) as stream:
            document.write(runs, stream, differences)
    except OSError as error:
        raise MsProfilerError(f"{file} cannot be written: {error.strerror}.", "Name another with --output.") from error
    return file
