"""Remove records that the options of the run exclude, such as spans in steps that the schedule leaves out."""

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.nesting import nest
from ms_profiler.store.format import Category

#: the name of a marker is its domain, this separator and its text. A name without the separator has the default domain
DOMAIN_ENDS = ": "
DEFAULT_DOMAIN = "default"


def take_away(recording: tables.Recording) -> None:
    """Remove records in steps that the run's schedule leaves out, and markers of domains that its options leave out.

    Args:
        recording: the run; its spans and instants are changed in place.
    """
    others = _other_domains(recording)
    steps = recording.steps.filter(pl.col("content") == tables.TIMES_ALONE).sort("start_ns")
    spans = _spans_out(recording.spans, steps, others)
    if spans.any():
        recording.spans = nest(recording.spans.filter(~spans).select(tables.UNNESTED.names())).select(
            tables.SPANS.names()
        )
    moments = intervals.locate(recording.instants["time_ns"], steps).is_not_null()
    recording.instants = recording.instants.filter(~(moments | _is_other(recording.instants, others)))
    again = recording.again
    if again is not None and (steps.height or len(others)):
        recording.again = lambda between, fine: (
            batch.filter(~_spans_out(batch, steps, others)) for batch in again(between, fine)
        )


def _spans_out(spans: pl.DataFrame, steps: pl.DataFrame, others: pl.Series) -> pl.Series:
    """Return whether each span is left out: it began in an unrecorded step, or is a marker of another domain."""
    own = spans["category"].is_in([Category.IMPORT, Category.PROFILER])
    return (intervals.locate(spans["start_ns"], steps).is_not_null() & ~own) | _is_other(spans, others)


def _is_other(table: pl.DataFrame, others: pl.Series) -> pl.Series:
    return (table["category"] == Category.MARKER) & table["name"].is_in(others.implode())


def _other_domains(recording: tables.Recording) -> pl.Series:
    """Return the rows in `names` of the markers whose domain the run does not select."""
    wanted, unwanted = (recording.info.listed(f"mstx_domain_{which}") for which in ("include", "exclude"))
    if not wanted and not unwanted:
        return pl.Series([], dtype=pl.UInt32)
    parts = recording.names.str.split_exact(DOMAIN_ENDS, 1).struct.unnest()
    domain = pl.when(parts["field_1"].is_null()).then(pl.lit(DEFAULT_DOMAIN)).otherwise(parts["field_0"])
    domains = parts.select(domain.alias("domain"))["domain"]
    return (~domains.is_in(wanted) if wanted else domains.is_in(unwanted)).arg_true().cast(pl.UInt32)
