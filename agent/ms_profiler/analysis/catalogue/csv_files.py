"""Describe the columns of the CSV files, and of the files of Python stacks, in ASCEND_PROFILER_OUTPUT."""

from typing import Final

from ms_profiler.analysis.catalogue.result_file import ResultFile
from ms_profiler.store import host_metrics, layout

_DEVICE_ID: Final = {"Device_id": "number of the device, `host` for work on a processor; torch_npu has no such column"}
_DEVICE_TYPE: Final = "the memory: `CPU`, `GPU:0` or `NPU:0`, with the number of the device"
_MOMENT: Final = "us since the epoch, followed by a tab, which keeps spreadsheets from rounding it"


def _of_host(threads: bool) -> dict[str, str]:
    """Return the columns of the host's counters: those of single threads if `threads` is true, else all others."""
    found = (kind for kind in host_metrics.METRICS.values() if kind.name.startswith("thread:") is threads)
    return {f"{kind.name}{'*' if kind.name.endswith(' ') else ''} ({kind.unit})": kind.source for kind in found}


CSV_FILES: Final = (
    ResultFile(
        layout.STEP_TRACE_TIME,
        "A step with all its records. Times are microseconds. For other tools' results, the vendor's formulas apply.",
        {
            "Step": "number of the step, as in the summary",
            "Computing": "time in which kernels ran; without kernels, the compute phases of the host",
            "Communication(Not Overlapped)": "communication while nothing was computed",
            "Overlapped": "communication while something was computed",
            "Communication": "time of communication, the sum of the two columns before this one",
            "Free": "time in which nothing was computed or communicated",
            "Stage": "length of the step; for a device, length of the step's work on the device, without `Bubble`",
            "Bubble": "time in which the device waited for another stage of a pipeline; 0 on a processor",
            "Communication(Not Overlapped and Exclude Receive)": "`Communication(Not Overlapped)` without `Bubble`",
            "Preparing": "from the begin of the step on the host to its first computation or communication",
        },
    ),
    ResultFile(
        layout.KERNEL_DETAILS,
        "A kernel, by stream and start. PyTorch on a processor has no kernels. There, the rows are the innermost "
        "operators, and all other operators that take more than 20 us by themselves.",
        {
            "Step ID": "number of the step; empty outside of all steps",
            "Model ID": "always N/A",
            "Task ID": "number of the task where CANN reports it, else N/A",
            "Stream ID": "stream of the device, or thread of the host",
            "Name": "full name of the kernel",
            "Type": "type of the operator",
            "OP State": "static or dynamic where CANN reports it, else N/A",
            "Accelerator Core": "the kind of core that ran the kernel",
            "Start Time(us)": _MOMENT,
            "Duration(us)": "duration of the kernel; for an operator, its time without operators inside",
            "Wait Time(us)": "gap after the previous kernel of the same stream",
            "Block Num": "blocks of the kernel where CANN reports them, else 0",
            "Input Shapes": "shapes of the inputs, where any shape is known",
            "Module": "module that the kernel belongs to, where modules are known",
            "Module Binding": "how the module is known: exact, by parameter or by order; no column if all are exact",
        },
    ),
    ResultFile(
        layout.OP_STATISTIC,
        "All kernels of one type, or all calls of a PyTorch operator on a processor. Most time first.",
        {
            **_DEVICE_ID,
            "OP Type": "type of the kernels, or name of the operator",
            "Core Type": "the kind of core that ran them",
            "Count": "number of kernels",
            "Total Time(us)": "sum of their durations",
            "Min Time(us)": "shortest duration",
            "Avg Time(us)": "mean duration",
            "Max Time(us)": "longest duration",
            "Ratio(%)": "share of the time of all kernels; for operators, share of all self time",
            "Self Time(us)": "time without operators inside; for PyTorch's operators only",
        },
    ),
    ResultFile(
        layout.OPERATOR_DETAILS,
        "A call of an operator, by time. The file exists with `record_shapes`, where calls of Python were traced, or "
        "where operators launched work on a device.",
        {
            "Name": "name of the operator",
            "Input Shapes": "sizes separated by commas, inputs by semicolons; an input without a size is empty",
            "Call Stack": "Python functions around it, the innermost first: `file(first line): name`. If the column "
            "would take more than 256 MB, only the first rows of a stack contain it, and its other rows have N/A",
            "Module": "innermost module around the operator",
            "Host Self Duration(us)": "time on the host without operators inside",
            "Host Total Duration(us)": "time on the host",
            "Device Self Duration(us)": "time of the kernels that the operator itself launched",
            "Device Total Duration(us)": "the same with operators inside",
        },
    ),
    ResultFile(
        layout.STACKS_FOLDED,
        "A Python stack that was sampled or traced (`with_stack`), for flame graphs. A space precedes the count.",
        {
            "stack": "thread, then functions to the innermost one, joined by semicolons: `name (file:first line)`",
            "count": "number of samples; for traced calls, the microseconds that the innermost function took by itself",
        },
    ),
    ResultFile(
        layout.STACKS_SPEEDSCOPE,
        "Python stacks in order of time, for https://www.speedscope.app; the form is JSON.",
        {
            "profiles": "one profile for each thread: `samples` (stacks) and `weights` (the ns that each stands for), "
            "or for traced calls `events` (begins and ends)",
            "shared": "the functions, each with its name, file and first line",
        },
    ),
    ResultFile(
        layout.API_STATISTIC,
        "All calls on the host of one level and name. Most time first within a level.",
        {
            **_DEVICE_ID,
            "Level": "kind of the call: model, module, primitive, dataset, ...; for a device's driver, its levels",
            "API Name": "name of the call",
            "Time(us)": "sum of the durations",
            "Count": "number of calls",
            "Avg(us)": "mean duration",
            "Min(us)": "shortest duration",
            "Max(us)": "longest duration",
            "Variance": "variance of the durations, in square microseconds",
        },
    ),
    ResultFile(
        layout.DATASET,
        "All waits for one data operation.",
        {
            "Operation": "name of the operation",
            "Stage": "always `data`, the phase in which the operation runs",
            "Occurrences": "number of waits",
            "Avg. time (us)": "mean wait",
            "Custom Info": "always N/A",
        },
    ),
    ResultFile(
        layout.MEMORY_RECORD,
        "The memory of the framework's allocator after an allocation or a release (option `profile_memory`). A "
        "megabyte is 2^20 bytes.",
        {
            "Component": "the allocator: `MindSpore`, `PyTorch`, or as the other tool names it",
            "Timestamp(us)": _MOMENT,
            "Total Allocated(MB)": "memory in use by tensors",
            "Total Reserved(MB)": "memory that the allocator reserved",
            "Total Active(MB)": "memory in use or still needed by a stream",
            "Stream Ptr": "the stream; in the form of torch_npu only",
            "Device Type": _DEVICE_TYPE,
        },
    ),
    ResultFile(
        layout.HOST_METRICS,
        "The interval between two samples of the host (`host_rate`), for one process. Numbers are means over the "
        "interval; `processors` are processor seconds per second. Only rows of the first process have the columns of "
        "the machine.",
        {"Process Id": "pid", "Start(us)": _MOMENT, "End(us)": _MOMENT, **_of_host(False)},
    ),
    ResultFile(
        layout.HOST_THREADS,
        "The interval between two samples of one thread (`host_sys` with `cpu`). Numbers are means over the interval.",
        {
            "Process Id": "pid",
            "Thread Id": "number of the thread in the system",
            "Thread Name": "name of the thread in the system",
            "Start(us)": _MOMENT,
            "End(us)": _MOMENT,
            **_of_host(True),
        },
    ),
    ResultFile(
        layout.OPERATOR_MEMORY,
        "An allocation of memory. With `profile_memory`, ms-profiler records the allocations of at least 1,024 bytes "
        "that PyTorch makes on a processor. Results of other tools have allocations on a device.",
        {
            "Name": "the operator that allocated",
            "Size(KB)": "size; a kilobyte is 2^10 bytes",
            "Allocation Time(us)": _MOMENT,
            "Release Time(us)": "when the memory was released, in the same form",
            "Active Release Time(us)": "when no stream needed the memory any longer, in the same form",
            "Duration(us)": "from the allocation to the release",
            "Active Duration(us)": "from the allocation until no stream needed the memory",
            **{
                f"{when} Total {what}(MB)": f"memory {text} at the {when.lower()}"
                for when in ("Allocation", "Release")
                for what, text in {"Allocated": "in use", "Reserved": "reserved", "Active": "active"}.items()
            },
            "Stream Ptr": "the stream",
            "Device Type": _DEVICE_TYPE,
        },
    ),
    ResultFile(
        layout.MODULE_MEMORY,
        "A change of the memory that a module of CANN reserved on a device.",
        {
            "Component": "the module of CANN",
            "Timestamp(us)": _MOMENT,
            "Total Reserved(MB)": "memory that the module reserved; a megabyte is 2^20 bytes",
            "Device": _DEVICE_TYPE,
        },
    ),
    ResultFile(
        "minddata_pipeline_raw_{rank}.csv",
        "An operator of MindSpore's dataset pipeline with its output queue (`data_process`); the root first.",
        {
            "op_id": "number of the operator",
            "op_type": "kind of the operator",
            "num_workers": "threads of the operator",
            "output_queue_size": "sampled sizes of the queue",
            "output_queue_average_size": "mean of the sampled sizes",
            "output_queue_length": "capacity of the queue",
            "output_queue_usage_rate": "mean size as a share of the capacity",
            "sample_interval": "ms between two samples",
            "parent_id": "`op_id` of the operator that reads from this one",
            "children_id": "`op_id` of the operators that this one reads from",
        },
    ),
    ResultFile(
        "minddata_pipeline_summary_{rank}.csv",
        "A line for each key, with a value for each operator of the dataset pipeline; -1 is unknown. "
        "The file with the ending `.json` has the same keys.",
        {
            "op_ids": "numbers of the operators",
            "op_names": "kinds of the operators",
            "pipeline_ops": "kind and number of each operator",
            "num_workers": "threads of each operator",
            "queue_average_size": "mean size of each output queue",
            "queue_utilization_pct": "mean size of each queue, in percent of its capacity",
            "queue_empty_freq_pct": "share of the samples in which each queue was empty, in percent",
            "children_ids": "operators that each operator reads from",
            "parent_id": "operator that reads from each operator",
            "avg_cpu_pct": "processor time of each operator, in percent of one processor",
            "per_pipeline_time": "mean wait for a batch, ms",
            "per_push_queue_time": "mean time to push a batch to the device's queue, ms",
            "per_batch_time": "mean time from one batch to the next, ms",
            "avg_cpu_pct_per_worker": "the same as `avg_cpu_pct`, for each thread",
            "cpu_analysis_details": "remarks about processor time",
            "queue_analysis_details": "remarks about queues",
            "bottleneck_warning": "the slowest operator, where one is found",
            "bottleneck_suggestion": "the reason, and what to try",
        },
    ),
)
