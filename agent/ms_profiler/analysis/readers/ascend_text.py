"""Read text results of MindSpore's and PyTorch's profilers for Ascend: `trace_view.json` and `kernel_details.csv`.

Either file is enough. `kernel_details.csv` has a row for each kernel, with its type and core, which the trace lacks.

In the trace, the name of a process tells what its threads are:

- `Python`, `MindSpore`, `CANN`: the host
- `Ascend Hardware`: a thread for each stream
- `HCCL` (newer: `Communication`): a thread for each group of ranks, followed by a thread for each plane of links of
  this group. An exchange between ranks runs on several planes at once.

Flows of the category `async_npu` lead from an operator to the task that it launched. Flows of the category
`HostToDevice` lead from the driver's call to the task.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics.kernels import HOST_CPU
from ms_profiler.analysis.metrics.scopes import Scope
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import ascend_run, assembly, csv_text, device_memory, trace_events
from ms_profiler.analysis.readers.decimals import nanoseconds
from ms_profiler.analysis.readers.trace_text import TEXT
from ms_profiler.errors import StoreError
from ms_profiler.store import layout
from ms_profiler.store.reader import ReadCounts
from ms_profiler.store.run_info import RunInfo

HARDWARE: Final = "Ascend Hardware"
COMMUNICATION: Final = ("HCCL", "Communication")
OVERLAP: Final = "Overlap Analysis"
#: process of the trace with kernels that ran on the CPU, because MindSpore recorded without a device
PROCESSOR: Final = "CPU OP"
_DRIVER: Final = "CANN"
_HOST: Final = ("Python", "MindSpore", "PyTorch", _DRIVER)
#: kinds of tasks that compute; the remaining kinds copy memory, wait, or mark a time
_COMPUTING: Final = (HOST_CPU, "AI_CORE", "AI_VECTOR_CORE", "AI_CPU", "AIV_SQE", "MIX_AIC", "MIX_AIV", "DSA_SQE")
#: values of the column `Accelerator Core` that mean an exchange
_EXCHANGES: Final = ("HCCL", "COMMUNICATION")
#: category of the flows from an operator to the task that it launched
_BY_FRAMEWORK: Final = "async_npu"
#: category of the flows from a driver's call to the task that it launched
BY_DRIVER: Final = "HostToDevice"
#: largest difference between a task's start in `kernel_details.csv` and in the trace: one truncates, the other rounds
_ROUNDING_NS: Final = 1
_NOTHING: Final = ("", "N/A")
#: arguments of spans to read: level of a call, stream and core of a task, and properties of a transfer
ARGUMENTS: Final = (
    *("level", "Physic Stream Id", "Task Type"),
    *("transport type", "link type", "src rank", "dst rank", "size(Byte)"),
)
#: columns that every `kernel_details.csv` has
NEEDED: Final = ("Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)")


def read(directory: str, ours: frozenset[str] = frozenset()) -> tables.Recording:
    """Read the result of an Ascend profiler from its text files.

    Args:
        directory: the directory that holds `ASCEND_PROFILER_OUTPUT`.
        ours: paths, relative to the directory, of files that ms-profiler wrote; they are not read.

    Raises:
        StoreError: the files have no event that can be read.
    """
    counts = ReadCounts()
    info = ascend_run.describe(directory, counts)
    names = [layout.TRACE_VIEW, layout.KERNEL_DETAILS]
    paths = {name: os.path.join(layout.OUTPUT, name) for name in names}
    there = [name for name in names if paths[name] not in ours and os.path.isfile(os.path.join(directory, paths[name]))]
    if not there:
        raise StoreError(f"{directory} holds neither {layout.TRACE_VIEW} nor {layout.KERNEL_DETAILS}.")
    events = trace_events.Events.none(ARGUMENTS)
    rows = pl.DataFrame(schema=ROWS)
    try:
        if layout.TRACE_VIEW in there:
            events = trace_events.read(os.path.join(directory, paths[layout.TRACE_VIEW]), ARGUMENTS, counts)
        if layout.KERNEL_DETAILS in there:
            rows = table(os.path.join(directory, paths[layout.KERNEL_DETAILS]), counts)
    except OSError as error:
        raise StoreError(f"{error.filename}: {error.strerror}.") from error
    return _recording(directory, info, ascend_run.form(directory), there, events, rows, counts, ours)


def of_trace(path: str, events: trace_events.Events, counts: ReadCounts) -> tables.Recording:
    """Return the recording of a single `trace_view.json`.

    Args:
        path: the path of the file.
        events: the events of the file, with `ARGUMENTS`.
        counts: the numbers of events that were read and skipped.

    Raises:
        StoreError: the file has no event that can be read.
    """
    form = tables.Form.MINDSPORE if "MindSpore" in events.processes.values() else tables.Form.TORCH_NPU
    name = "mindspore" if form == tables.Form.MINDSPORE else "torch"
    info = RunInfo(framework={"name": name, "version": "", "device": "Ascend"}, rank_known=False)
    files = [os.path.basename(path)]
    return _recording(path, info, form, files, events, pl.DataFrame(schema=ROWS), counts, frozenset())


def _recording(
    path: str,
    info: RunInfo,
    form: tables.Form,
    files: list[str],
    events: trace_events.Events,
    rows: pl.DataFrame,
    counts: ReadCounts,
    ours: frozenset[str],
) -> tables.Recording:
    device = tables.Device(
        form,
        tasks(events, rows),
        files,
        unmarked=not events.spans.is_empty() and events.of_process(OVERLAP).is_empty(),
        calls=calls(events),
        transfers=transfers(events, counts),
        memory=device_memory.of_trace(events),
    )
    ascend_run.note(info, device, path, ours)
    computing = device.tasks.filter(~pl.col("exchange"))
    if computing.height and computing["type"].is_null().all():
        why = "types of kernels are recorded from profiler level 1 on, and only kernel_details.csv has them"
        info.not_collected.append({"what": layout.OP_STATISTIC, "why": why})
    callers = {assembly.TASKS: _callers(events, device.tasks["start_ns"])}
    parts = assembly.Parts(_host(events), device.tasks, events.native_threads(), _process(events), device, callers)
    return assembly.assemble(path, info, counts, parts)


#: the columns of `tables.TASKS` that `kernel_details.csv` has
ROWS: Final = pl.Schema(
    {name: kind for name, kind in tables.TASKS.items() if name not in ("launch_ns", "driver_ns", "group")}
)


def _host(events: trace_events.Events) -> pl.DataFrame:
    """Return the host's spans as `assembly.HOST`, without Python stacks, which are not the framework's work."""
    kernels = [pid for pid, name in events.processes.items() if name == PROCESSOR]
    labelled = [pid for pid, label in events.labels.items() if label.startswith("CPU")]
    names = events.processes
    known = [pid for pid in {*labelled, *names} if names.get(pid) in _HOST or (pid in labelled and pid not in kernels)]
    spans = events.spans.filter(pl.col("pid").is_in(known), pl.col("category") != "python_function")
    driver = spans["pid"].is_in([pid for pid, name in events.processes.items() if name == _DRIVER])
    kinds = assembly.categorised(spans["name"])
    return assembly.host(spans, kinds, driver)


def calls(events: trace_events.Events) -> pl.DataFrame:
    """Return the driver's calls as `tables.DRIVER_CALLS`. The name of a call is the text after "@" in its span's name.

    Args:
        events: the events of the trace.
    """
    spans = events.of_process(_DRIVER)
    return spans.select(
        pl.coalesce(events.arguments(spans, "level"), pl.lit("")).alias("level"),
        pl.col("name").str.replace(r"^\w+@", ""),
        "start_ns",
        "end_ns",
        pl.col("tid").cast(pl.Int64, strict=False).fill_null(0).alias("thread"),
    )


def _process(events: trace_events.Events) -> int:
    """Return the pid of the job: the pid of the framework's process in the trace; 0 if unknown."""
    pids = [pid for pid, name in events.processes.items() if name in _HOST and name != _DRIVER and pid.isdecimal()]
    return int(pids[0]) if pids else 0


def tasks(events: trace_events.Events, rows: pl.DataFrame) -> pl.DataFrame:
    """Return `tables.TASKS`. Kernels come from `kernel_details.csv`, exchanges between ranks from the trace.

    If the CSV file has no kernels, they come from the trace. If the trace has no exchanges, the CSV file provides them.

    Args:
        events: the events of the trace.
        rows: the content of the CSV file, as `ROWS`.
    """
    hardware = pl.concat([_hardware(events), _processor(events)])
    computed = rows.filter(~pl.col("exchange"))
    untold = computed.is_empty()
    kernels = hardware.filter(pl.col("core").is_in(_COMPUTING)) if untold else _placed(computed, hardware)
    exchanges = _exchanges(events)
    if exchanges.is_empty():
        exchanges = rows.filter("exchange").with_columns(pl.lit("").alias("group"))
    both = pl.concat([kernels.with_columns(pl.lit(None, pl.String).alias("group")), exchanges], how="diagonal_relaxed")
    starts = both["start_ns"]
    driver, framework = launches(events, starts, BY_DRIVER), launches(events, starts, _BY_FRAMEWORK)
    launched = framework.zip_with(framework.is_not_null(), driver)
    return (
        both.with_columns(pl.col("stream").fill_null(0), launched.alias("launch_ns"), driver.alias("driver_ns"))
        .select(tables.TASKS.names())
        .cast(tables.TASKS)
    ).sort("start_ns", "end_ns", maintain_order=True)


def _callers(events: trace_events.Events, starts: pl.Series) -> pl.Series:
    """Return the thread of the operator that launched each task, or else the thread of the driver's call."""
    driver, framework = (launches(events, starts, category, "tid") for category in (BY_DRIVER, _BY_FRAMEWORK))
    return framework.zip_with(framework.is_not_null(), driver)


def _hardware(events: trace_events.Events) -> pl.DataFrame:
    spans = events.of_process(HARDWARE)
    stream = events.arguments(spans, "Physic Stream Id").fill_null(spans["tid"])
    return spans.select(
        stream.cast(pl.UInt32, strict=False).fill_null(0).alias("stream"),
        "name",
        pl.lit(None, pl.String).alias("type"),
        events.arguments(spans, "Task Type").alias("core"),
        pl.lit(None, pl.String).alias("shapes"),
        "start_ns",
        "end_ns",
        pl.lit(False).alias("exchange"),
    )


def _processor(events: trace_events.Events) -> pl.DataFrame:
    spans = events.of_process(PROCESSOR)
    return spans.select(
        pl.col("tid").cast(pl.UInt32, strict=False).fill_null(0).alias("stream"),
        "name",
        pl.Series("type", [Scope.of(name).type for name in spans["name"]], dtype=pl.String),
        pl.lit(HOST_CPU).alias("core"),
        pl.lit(None, pl.String).alias("shapes"),
        "start_ns",
        "end_ns",
        pl.lit(False).alias("exchange"),
    )


def _placed(kernels: pl.DataFrame, hardware: pl.DataFrame) -> pl.DataFrame:
    """Fill in missing streams of kernels. The stream comes from the task in the trace that starts at the same time.

    A `kernel_details.csv` that was recorded without a profiler level has no streams.
    """
    if kernels["stream"].null_count() == 0:
        return kernels
    streams = hardware.select("start_ns", pl.col("stream").alias("known")).sort("start_ns")
    found = kernels.sort("start_ns").join_asof(streams, on="start_ns", strategy="nearest", tolerance=_ROUNDING_NS)
    return found.with_columns(pl.coalesce("stream", "known", pl.lit(0, pl.UInt32)).alias("stream")).drop("known")


def _exchanges(events: trace_events.Events) -> pl.DataFrame:
    """Return the exchanges between ranks, from the threads of groups. Threads of planes only have their parts."""
    spans = events.of_process(*COMMUNICATION)
    threads = events.thread_names(spans)
    groups = threads.str.strip_prefix("Group ").str.strip_suffix(" Communication")
    return (
        spans.with_columns(groups.alias("group"))
        .filter(~threads.str.starts_with("Plane"))
        .select(
            pl.col("tid").cast(pl.UInt32, strict=False).fill_null(0).alias("stream"),
            "name",
            _operation(pl.col("name")).alias("type"),
            pl.lit(_EXCHANGES[0]).alias("core"),
            "group",
            pl.lit(None, pl.String).alias("shapes"),
            "start_ns",
            "end_ns",
            pl.lit(True).alias("exchange"),
        )
    )


def transfers(events: trace_events.Events, counts: ReadCounts) -> pl.DataFrame:
    """Return the transfers that exchanges between ranks consist of, as `tables.TRANSFERS`. Threads of planes have them.

    In the order of thread numbers, the threads of a group's planes follow the group's own thread. A transfer belongs to
    the exchange of its group that was running when the transfer began.

    Args:
        events: the events of the trace.
        counts: receives the number of unreadable parts.
    """
    spans = events.of_process(*COMMUNICATION)
    threads = events.thread_names(spans)
    number = pl.col("tid").cast(pl.Int64, strict=False)
    placed = spans.with_columns(number.alias("number"), threads.alias("thread")).sort("number", maintain_order=True)
    own = pl.col("thread").str.starts_with("Plane")
    group = pl.col("thread").str.strip_prefix("Group ").str.strip_suffix(" Communication")
    placed = placed.with_columns(pl.when(~own).then(group).forward_fill().alias("group"))
    exchanges = placed.filter(~own).select("group", "start_ns", exchange_ns="start_ns", until_ns="end_ns")
    own_parts = placed.filter(own)
    parts = (
        own_parts.with_columns(
            pl.col("thread").str.extract(r"(\d+)$").cast(pl.Int64, strict=False).alias("plane"),
            pl.col("name").alias("kind"),
            events.arguments(own_parts, "transport type").alias("transport"),
            events.arguments(own_parts, "link type").alias("link"),
            *(
                events.arguments(own_parts, argument).cast(pl.Int64, strict=False).alias(name)
                for name, argument in (("source", "src rank"), ("target", "dst rank"), ("bytes", "size(Byte)"))
            ),
        )
        .sort("start_ns", maintain_order=True)
        .join_asof(exchanges.sort("start_ns"), on="start_ns", by="group", strategy="backward", check_sortedness=False)
        .with_columns(pl.when(pl.col("start_ns") <= pl.col("until_ns")).then("exchange_ns").alias("exchange_ns"))
        .select(tables.TRANSFERS.names())
        .cast(tables.TRANSFERS)
    )
    return assembly.usable_transfers(parts, counts)


def _operation(name: pl.Expr) -> pl.Expr:
    """Return the type of an exchange as in `kernel_details.csv`: `hcom_allReduce_` for `hcom_allReduce__586_0_1`."""
    return name.str.replace(r"__\d+_.*$", "_")


def launches(events: trace_events.Events, starts: pl.Series, category: str, what: str = "time_ns") -> pl.Series:
    """Return when the host launched each task: the begin of the first flow that ends when the task starts.

    The result is null for a task at whose start no flow ends.

    Args:
        events: the events of the trace.
        starts: the start of each task, ns.
        category: the category of the flows.
        what: the column of the flow's begin to return: `time_ns` or `tid`.
    """
    flows = events.flows.filter(pl.col("category") == category)
    begins = flows.filter("begin").unique("id", keep="first").select("id", pl.col(what).alias("launch_ns"))
    ends = flows.filter(~pl.col("begin")).join(begins, on="id").sort("time_ns").unique("time_ns", keep="first")
    known = ends.select("time_ns", "launch_ns")
    return starts.alias("time_ns").to_frame().join(known, on="time_ns", how="left", maintain_order="left")["launch_ns"]


def text(path: str, needed: Sequence[str], counts: ReadCounts, names: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Return the cells of a CSV file as text; an empty table if the file is unreadable or lacks a needed column.

    Args:
        path: the path of the file.
        needed: the columns that the file must have.
        counts: receives the number of unreadable parts.
        names: column names of other versions -> the names used here.
    """
    try:
        found = csv_text.read(path, infer_schema=False, encoding="utf8-lossy", truncate_ragged_lines=True)
    except pl.exceptions.PolarsError as error:
        counts.damaged_files.append((os.path.basename(path), str(error).partition("\n")[0]))
        return pl.DataFrame()
    found = found.with_columns(pl.all().str.slice(0, TEXT))
    found = found.rename({old: new for old, new in (names or {}).items() if new not in found.columns}, strict=False)
    missing = [name for name in needed if name not in found.columns]
    if missing:
        counts.damaged_files.append((os.path.basename(path), f"has no column {missing[0]}"))
        return pl.DataFrame()
    return found


def table(path: str, counts: ReadCounts) -> pl.DataFrame:
    """Return `ROWS` of a `kernel_details.csv`.

    Args:
        path: the path of the file.
        counts: receives the number of unreadable parts.
    """
    return rows_of(text(path, NEEDED, counts), counts)


def rows_of(text: pl.DataFrame, counts: ReadCounts) -> pl.DataFrame:
    """Convert a table of kernels from text to `ROWS`.

    Args:
        text: a table with the columns of a `kernel_details.csv`, as text; empty for none.
        counts: receives the number of unreadable parts.
    """
    if text.is_empty():
        return pl.DataFrame(schema=ROWS)
    core = pl.col("Accelerator Core")
    start = nanoseconds(pl.col("Start Time(us)"))
    rows = text.select(
        _column(text, "Stream ID").cast(pl.UInt32, strict=False).alias("stream"),
        pl.col("Name").alias("name"),
        pl.when(~pl.col("Type").is_in(_NOTHING)).then("Type").alias("type"),
        core.alias("core"),
        _column(text, "Input Shapes").str.strip_chars('"').alias("shapes"),
        start.alias("start_ns"),
        (start + nanoseconds(pl.col("Duration(us)"))).alias("end_ns"),
        core.is_in(_EXCHANGES).alias("exchange"),
    )
    usable = rows.filter(pl.col("name").is_not_null(), pl.col("end_ns") >= pl.col("start_ns"))
    counts.damaged_kernels += rows.height - usable.height
    return usable


def _column(text: pl.DataFrame, name: str) -> pl.Expr:
    return pl.col(name) if name in text.columns else pl.lit(None, pl.String)
