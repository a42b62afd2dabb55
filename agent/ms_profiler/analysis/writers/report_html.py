"""report.html: the run as a page for a browser. `analysis/page/` makes the content.

`ms-profiler report` and `--export html` write the page. Later analyses renew an existing page.
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
    """Return the path of the file, relative to the result directory."""
    return layout.REPORT


def applies(measures: Measures) -> bool:
    """Return whether the page was requested, or exists already."""
    return FORM in measures.forms or os.path.isfile(os.path.join(measures.target, layout.REPORT))


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the page."""
    document.write([content.content(measures)], stream)


@dataclass(frozen=True)
class Begun:
    """A page whose figures another thread makes while this thread writes other files.

    Attributes:
        figures: the content of the page without its summary, from `content.figures`.
    """

    figures: Future[dict[str, Any]]

    def path(self, measures: Measures) -> str:
        """Return the path of the file, relative to the result directory."""
        return path(measures)

    def applies(self, measures: Measures) -> bool:
        """Return whether the page was requested, or exists already."""
        return applies(measures)

    def write(self, measures: Measures, stream: BinaryIO) -> None:
        """Write the page. Its summary is made only now, because the summary lists the written files."""
        document.write([{"summary": summary.summary(measures), **self.figures.result()}], stream)


def begin(measures: Measures) -> Begun | None:
    """Begin to make the page in another thread, and return it. If that is not possible, return None.

    The page takes a quarter of the time of an analysis. For a run that does not fit into memory, the result is None,
    because two threads would read two parts of the run at the same time. Then `write` makes the whole page.

    Args:
        measures: the measures of the run.
    """
    if not applies(measures) or measures.recording.again is not None:
        return None
    thread = ThreadPoolExecutor(1, "ms-profiler-page")
    figures = thread.submit(content.figures, measures)
    thread.shutdown(wait=False)
    return Begun(figures)
