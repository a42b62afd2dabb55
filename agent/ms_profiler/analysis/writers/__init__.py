"""One module per artefact; `core` opens, finishes and cleans up."""

from ms_profiler.analysis.writers import (
    api_statistic,
    communication_database,
    communication_json,
    communication_matrix,
    core,
    database,
    dataset_csv,
    host_csv,
    kernel_details,
    kineto_trace,
    memory_record,
    metadata,
    npu_module_mem,
    op_statistic,
    operator_details,
    operator_memory,
    overlap_analysis,
    parquet,
    perfetto_trace,
    pipeline_raw,
    pipeline_summary,
    profiler_info,
    rank_file,
    report_html,
    stacks_folded,
    stacks_speedscope,
    step_trace_time,
    summary,
    trace_view,
    vendor_table,
)

#: files that are written section by section, before all others
SECTIONS: tuple[core.SectionWriter, ...] = (trace_view, perfetto_trace, kineto_trace, kernel_details)

#: further files, in the order of writing: the summary is the last, so that it exists only with all others
ARTEFACTS: tuple[core.Writer | core.Database, ...] = (
    step_trace_time,
    op_statistic,
    api_statistic,
    operator_details,
    memory_record,
    npu_module_mem,
    communication_json,
    communication_matrix,
    dataset_csv,
    *host_csv.WRITERS,
    stacks_folded,
    stacks_speedscope,
    pipeline_raw,
    pipeline_summary.CSV,
    pipeline_summary.JSON,
    *vendor_table.WRITERS,
    *parquet.WRITERS,
    profiler_info,
    metadata,
    database,
    communication_database,
    rank_file,
    report_html,
    summary,
)

#: files added to the result of another tool where they are missing; the summary last
DERIVED_SECTIONS: tuple[core.SectionWriter, ...] = (trace_view, perfetto_trace, kernel_details)
DERIVED: tuple[core.Writer | core.Database, ...] = (
    overlap_analysis,
    step_trace_time,
    op_statistic,
    api_statistic,
    *parquet.WRITERS,
    communication_json,
    communication_matrix,
    memory_record,
    operator_memory,
    npu_module_mem,
    database,
    communication_database,
    report_html,
    summary,
)
