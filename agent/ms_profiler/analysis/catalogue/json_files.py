"""Describe the JSON files of a result and their keys, except for `summary.json`, which has a schema of its own."""

from typing import Final

from ms_profiler.analysis.catalogue.result_file import ResultFile
from ms_profiler.analysis.metrics import transfers
from ms_profiler.store import layout

_MB: Final = "megabytes of 10^6 bytes"
_MOVED: Final = {
    "Transit Size(MB)": f"bytes exchanged over the link, {_MB}",
    "Transit Time(ms)": "time that the bytes took, milliseconds",
    "Bandwidth(GB/s)": "`Transit Size(MB)` / `Transit Time(ms)`, 0 for no time",
}
_PLACE: Final = "step, kind (`p2p` or `collective`) and name of the exchange"

#: The keys of an entry of `communication.json`: `TIME_KEYS` for its times, `LINK_KEYS` for its links. The entry
#: `Total Op Info` has sums over all other entries of the same kind.
TIME_KEYS: Final = {
    "Start Timestamp(us)": "begin of the exchange, us since the epoch; sums have none",
    "Elapse Time(ms)": "duration of the exchange, milliseconds",
    "Transit Time(ms)": "time in which bytes moved, milliseconds; the whole duration in recordings of a processor",
    "Wait Time(ms)": "time in which the rank waited for another rank, milliseconds",
    "Synchronization Time(ms)": "wait before the first bytes moved, milliseconds",
    "Idle Time(ms)": "`Elapse Time(ms)` without transit and wait, milliseconds",
    "Wait Time Ratio": "wait / (wait + transit)",
    "Synchronization Time Ratio": "synchronization / (synchronization + transit)",
}
LINK_KEYS: Final = {
    **_MOVED,
    "Large Packet Ratio": f"share of the packets of more than {transfers.LARGE_MB} megabytes",
    "Size Distribution": "number of packets and their milliseconds, by size of a packet in megabytes",
}

JSON_FILES: Final = (
    ResultFile(
        layout.COMMUNICATION,
        f"An exchange with other ranks, by {_PLACE}. `Communication Time Info` has the times of the exchange. "
        "`Communication Bandwidth Info` has an entry for each kind of link (RDMA, HCCS, PCIE, SDMA, SIO, TCP). The "
        "file exists when the bytes of an exchange are known.",
        {**TIME_KEYS, **{name: meaning for name, meaning in LINK_KEYS.items() if name not in TIME_KEYS}},
    ),
    ResultFile(
        layout.COMMUNICATION_MATRIX,
        f"A link between two ranks (`FROM-TO`), by {_PLACE}. The end of a name is `total` for the sum of all, "
        "or the place of the exchange by bandwidth: `top1` (highest), `middle`, `bottom3`, `bottom2` or `bottom1` "
        "(lowest). On a processor, the link of a message is that from its sender to its receiver, in the file of "
        "the sender only; other exchanges count for the link of the rank with itself.",
        {
            "Transport Type": "kind of the link",
            **_MOVED,
            "Op Name": "name of the exchange; totals have none",
        },
    ),
    ResultFile(
        layout.PARALLEL_STRATEGY,
        "The division of the job among its ranks (`parallel_strategy`), as far as the framework reports it.",
        {
            "framework": "`mindspore` or `torch`",
            "rank": "number of the rank",
            "world_size": "ranks of the job",
            "parallel_group_info": "as in `profiler_metadata.json`",
            "distributed_args": "as in `profiler_metadata.json`",
            "groups": "PyTorch's process groups: name, purpose, backend, ranks",
            "meshes": "PyTorch's device meshes: device, dimensions, shape, ranks",
            "context": "MindSpore's parallel context, by name of the setting",
        },
    ),
    ResultFile(
        layout.OVERLAP_ANALYSIS,
        "An interval of a lane (row of the timeline) of the overlap analysis, as an event of `trace_view.json`. The "
        "file exists when the timeline of another tool lacks these lanes.",
        {
            "ph": "`X` for an interval, `M` for the name of a lane",
            "name": "`Computing`, `Communication`, `Communication(Not Overlapped)` or `Free`",
            "pid": "number of the process `Overlap Analysis`",
            "tid": "number of the lane",
            "ts": "begin, us since the epoch",
            "dur": "duration, us",
            "cat": "always empty",
            "args": "always empty for intervals",
        },
    ),
    ResultFile(
        "profiler_info_{rank}.json",
        "Metadata beside `ASCEND_PROFILER_OUTPUT`. Other tools take the number of the rank from the name of this file.",
        {
            "profiler_parameters": "the options of the run, by name, and `is_set_schedule`",
            "ms_profiler_info": "`rank_id` and `device_id`",
            "cann_profiler_info": "always empty",
            "analysis_cost_time": "always empty",
            "ms_version": "version of MindSpore; empty for PyTorch",
            "cann_version": "always empty",
            "jit_level": "always empty",
        },
    ),
    ResultFile(
        layout.METADATA,
        "Facts about the run, for example its groups of ranks. The file is beside the folder `ASCEND_PROFILER_OUTPUT`. "
        "Metadata that the script adds keep their keys.",
        {
            "parallel_group_info": "the groups of this rank, by name: `group_name`, `group_rank`, `global_ranks`",
            "distributed_args": "number of parts for each kind of parallelism, named as Megatron's arguments",
            "ms_profiler": "version, host, pid, rank, job, role, actor, attempt, versions of Python and framework",
        },
    ),
    ResultFile(
        layout.RANK,
        "The figures of one rank of several, for `ms-profiler cluster`. A table is a list of values by column.",
        {
            "version": "version of the form of this file",
            "rank": "number of the rank",
            "world_size": "ranks of the job",
            "host": "name of the machine",
            "boot": "identifies the machine and its start; empty if unknown",
            "started_ns": "begin of the recording, ns since the epoch",
            "ended_ns": "time of the last record, ns since the epoch",
            "end": "how the process ended",
            "verdict": "the finding of the rank's own summary",
            "uncertainty_ns": "uncertainty of the clock, ns; null if unknown",
            "role": "role of the process in its job; empty where all do the same",
            "actor": "id of the Ray actor; empty where there is none",
            "attempt": "number of earlier starts of the rank by the same launcher",
            "job": "name of the launch, the same for all ranks of a machine",
            "saved": "for each complete checkpoint, the last step that it contains; -1 if it contains no step",
            "loaded": "whether the rank read a checkpoint before its first step ended",
            "stepped": "whether anything marked steps; otherwise the whole run counts as one step",
            "groups": "the ranks of each group, by the name of the group",
            "purposes": "the purposes of these groups",
            "steps": "table of the steps: number, begin, end, own time, other times of the step",
            "between": "for each part of the time between steps, the module or operator that takes most of it",
            "modules": "for each part of a step in which modules work, the own time of each module in a mean step, ns",
            "peaks": "for each part of a step that a single module makes far longer in few steps: `module` (its path) "
            "and `steps` (the numbers of these steps)",
            "ending": "the end of the recording: the last step, the last phase after it, and the number of exchanges",
            "parts": "table of the parts of a step and of the time before it: `step`, `part`, `duration_ns`",
            "exchanges": "table of the exchanges: `group`, `operation`, `bytes`, `start_ns`, `end_ns`, `step`; for a "
            "message, `peer` (the other rank) and `tag`",
        },
    ),
)
