"""One module per artefact; `core` opens, finishes and cleans up."""

from ms_profiler.analysis.writers import (
    core,
    dataset,
    metadata,
    profiler_info,
    step_trace_time,
    summary,
    trace_view,
)

#: what an analysis writes, in this order: a summary is there only when everything else is
ARTEFACTS: tuple[core.Writer, ...] = (trace_view, step_trace_time, dataset, profiler_info, metadata, summary)
