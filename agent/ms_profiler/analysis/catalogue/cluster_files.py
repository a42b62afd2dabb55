"""Describe the files that `ms-profiler cluster` writes into cluster_analysis_output, and their columns."""

from typing import Final

from ms_profiler.analysis.catalogue.csv_files import CSV_FILES
from ms_profiler.analysis.catalogue.json_files import JSON_FILES
from ms_profiler.analysis.catalogue.result_file import ResultFile
from ms_profiler.store import layout

_COLUMNS: Final = {file.name: file.columns for file in (*CSV_FILES, *JSON_FILES)}
_STEP: Final = {name: text for name, text in _COLUMNS[layout.STEP_TRACE_TIME].items() if name != "Step"}

CLUSTER_FILES: Final = (
    ResultFile(
        "cluster_step_trace_time.csv",
        "A step of a rank, or of a stage of a pipeline. Each time of a stage is the longest time of the stage's ranks.",
        {
            "Step": "number of the step",
            "Type": "`rank` or `stage`",
            "Index": "number of the rank, or the ranks of the stage",
            **_STEP,
            "DP Index": "place of the rank among the data-parallel ranks, where the layout is known",
            "PP Index": "place of the rank among the stages of the pipeline",
            "TP Index": "place of the rank among the tensor-parallel ranks",
        },
    ),
    ResultFile(
        "cluster_communication.json",
        "`communication.json` of all ranks, by kind and ranks of a group, step, name of the exchange and rank. "
        "`Total Op Info` has sums over the exchanges of a group.",
        _COLUMNS[layout.COMMUNICATION],
    ),
    ResultFile(
        "cluster_communication_matrix.json",
        "`communication_matrix.json` of all ranks, by kind and ranks of a group, step, name of the exchange and link. "
        "The ends of a link are ranks of the job.",
        _COLUMNS[layout.COMMUNICATION_MATRIX],
    ),
    ResultFile(
        "communication_group.json",
        "The groups of ranks.",
        {
            "collective": "the ranks of each group that made collective exchanges",
            "p2p": "the ranks of each group that exchanged messages between two ranks",
            "comm_group_parallel_info": "for each group: `type`, `rank_set`, `group_name`, `group_id`, `pg_name`",
        },
    ),
    ResultFile(
        "pipeline_bubbles.csv",
        "A step of a stage of a pipeline. Times are means over the stage's ranks.",
        {
            "Step": "number of the step",
            "Stage": "number of the stage, from 0",
            "Bubble(us)": "time in which a rank only exchanged messages of the pipeline, or waited for one",
            "Step Time(us)": "duration of the step",
        },
    ),
    ResultFile(
        "expert_load.csv",
        "The experts of a rank in a step.",
        {
            "Group": "the ranks that share their experts, separated by spaces",
            "Rank": "number of the rank",
            "Step": "number of the step",
            "Bytes": "bytes that the experts of the rank sent back",
            "Expert Time(us)": "time between the two exchanges, by the rank's own clock",
            "Wait(us)": "time in which the rank waited for the experts of other ranks",
        },
    ),
)
