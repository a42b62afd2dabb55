"""What is in a store and not in its result: the run did not ask for it, another one that shares the store did."""

import polars as pl

from ms_profiler.analysis import tables
from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.nesting import nest
from ms_profiler.store.format import Category

#: between the domain of a marker and its text; markers of the default domain have none
DOMAIN_ENDS = ": "
DEFAULT_DOMAIN = "default"


def take_away(recording: tables.Recording) -> None:
    """Take away what the run's schedule or its domains of markers leave out.

    Args:
        recording: the run, of which spans and instants are changed.
    """
    spans, moments = _by_schedule(recording)
    others = _other_domains(recording)
    spans |= (recording.spans["category"] == Category.MARKER) & recording.spans["name"].is_in(others.implode())
    moments |= (recording.instants["category"] == Category.MARKER) & recording.instants["name"].is_in(others.implode())
    if spans.any():
        recording.spans = nest(recording.spans.filter(~spans).select(tables.UNNESTED.names())).select(
            tables.SPANS.names()
        )
    recording.instants = recording.instants.filter(~moments)


def _by_schedule(recording: tables.Recording) -> tuple[pl.Series, pl.Series]:
    """Tell which spans and which instants began in a step that is not recorded."""
    steps = recording.steps.filter(~pl.col("recorded")).sort("start_ns")
    own = recording.spans["category"].is_in([Category.IMPORT, Category.PROFILER])
    inside = intervals.locate(recording.spans["start_ns"], steps).is_not_null()
    return inside & ~own, intervals.locate(recording.instants["time_ns"], steps).is_not_null()


def _other_domains(recording: tables.Recording) -> pl.Series:
    """Return the rows of the names whose domain the run does not want."""
    options = recording.info.options
    wanted, unwanted = options.get("mstx_domain_include") or [], options.get("mstx_domain_exclude") or []
    if not wanted and not unwanted:
        return pl.Series([], dtype=pl.UInt32)
    parts = recording.names.str.split_exact(DOMAIN_ENDS, 1).struct.unnest()
    domain = pl.when(parts["field_1"].is_null()).then(pl.lit(DEFAULT_DOMAIN)).otherwise(parts["field_0"])
    domains = parts.select(domain.alias("domain"))["domain"]
    return (~domains.is_in(wanted) if wanted else domains.is_in(unwanted)).arg_true().cast(pl.UInt32)
