"""report.html: the run as a page to look at; `analysis/page/` describes it.

`ms-profiler report` and `--export html` write it; later analyses renew an existing page.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.page import content, document
from ms_profiler.analysis.writers import summary
from ms_profiler.store import layout

FORM: Final = "html"


def path(measures: Measures) -> str:
    """Return the path of the file."""
    return layout.REPORT


def applies(measures: Measures) -> bool:
    """Return whether the page was requested, or exists already."""
    return FORM in measures.forms or os.path.isfile(os.path.join(measures.target, layout.REPORT))


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the page."""
    document.write([content.content(measures)], stream)


@dataclass(frozen=True)
class Begun:
    """A page whose figures another thread makes while other files are written.

    Attributes:
        figures: the result of `content.figures`.
    """

    figures: Future[dict[str, Any]]

    def path(self, measures: Measures) -> str:
        """Return the path of the file."""
        return path(measures)

    def applies(self, measures: Measures) -> bool:
        """Return whether the page was requested, or exists already."""
        return applies(measures)

    def write(self, measures: Measures, stream: BinaryIO) -> None:
        """Write the page; its summary is made now, because it lists the written files."""
        document.write([{"summary": summary.summary(measures), **self.figures.result()}], stream)


def begin(measures: Measures) -> Begun | None:
    """Begin a page, which takes a quarter of the time of an analysis; None where `write` makes all of it.

    Args:
        measures: the measures of the run; one that is too large to hold is read section by section, twice as much at
            the same time.
    """
    if not applies(measures) or measures.recording.again is not None:
        return None
    thread = ThreadPoolExecutor(1, "ms-profiler-page")
    figures = thread.submit(content.figures, measures)
    thread.shutdown(wait=False)
    return Begun(figures)
