"""report.html: the run as a page to look at; `analysis/page/` describes it.

Written where `ms-profiler report` or `--export html` asks for it, and renewed wherever it is already.
"""

import os
from typing import BinaryIO, Final

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.page import content, document
from ms_profiler.store import layout

FORM: Final = "html"


def path(measures: Measures) -> str:
    """Return where it goes."""
    return layout.REPORT


def applies(measures: Measures) -> bool:
    """Tell whether it was asked for, or is there already."""
    return FORM in measures.forms or os.path.isfile(os.path.join(measures.target, layout.REPORT))


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the page."""
    document.write([content.content(measures)], stream)
