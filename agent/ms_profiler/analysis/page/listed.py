"""Make a table of `ms-profiler sql` by its name, for the page."""

import polars as pl

from ms_profiler.analysis import catalogue
from ms_profiler.analysis.metrics.measures import Measures


def table(name: str, measures: Measures) -> pl.DataFrame:
    """Return the rows of a table of `ms-profiler sql`.

    Args:
        name: the name of one of `catalogue.TABLES`.
        measures: the measures of the run.
    """
    found = catalogue.named(name)
    assert found is not None
    return found.of(measures)
