"""Read the files that CANN's msprof exports from ms-profiler's aclprof recordings.

msprof writes to `mindstudio_profiler_output` in a folder `PROF_*`:

- A trace, `msprof_*.json`. MindSpore's and torch_npu's profilers make their `trace_view.json` from such a trace.
- Tables as CSV files, for example `op_summary_1.csv`. Large tables are split into `op_summary_slice_0_1.csv` and so on.

Column names differ between CANN versions. The columns of `op_summary`, the table of kernels, are renamed to those of
`kernel_details.csv`.
"""

import os
import re
from collections.abc import Sequence
from typing import Final

import polars as pl

from ms_profiler.analysis.driver import liveness
from ms_profiler.analysis.driver.export import Export
from ms_profiler.analysis.metrics import operators
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import ascend_text, assembly, device_memory, device_slots, trace_events
from ms_profiler.analysis.readers.decimals import nanoseconds
from ms_profiler.store.reader import ReadCounts

#: column of `op_summary` -> column of `kernel_details.csv`
_KERNELS: Final = {
    "Op Name": "Name",
    "OP Type": "Type",
    "Task Type": "Accelerator Core",
    "Task Start Time(us)": "Start Time(us)",
    "Task Duration(us)": "Duration(us)",
    "Block Dim": "Block Num",
    "Mix Block Dim": "Mix Block Num",
}
#: columns that `tables.TASKS` has already, or that nothing needs
_KNOWN: Final = (
    *("Device_id", "Model Name", "Infer ID", "Stream ID", "Name", "Type", "Accelerator Core", "Start Time(us)"),
    *("Duration(us)", "Task Wait Time(us)", "Input Shapes"),
)
#: unit at the end of a column name -> bytes in this unit
_UNITS: Final = {"(KB)": 1024, "(MB)": 2**20}
#: pattern of the file of a table; its group is the name of the table
_TABLE: Final = re.compile(r"(?P<name>\w+?)(_slice_\d+)?_\d+\.csv")
_TRACE: Final = re.compile(r"msprof(_slice)?_[\d_]+\.json")


def attach(recording: tables.Recording, exports: Sequence[Export]) -> None:
    """Add the records of aclprof to a recording, and note the records that could not be read.

    Args:
        recording: ms-profiler's own recording, with its steps and threads. It is changed in place.
        exports: the files that msprof made from the raw data of aclprof.
    """
    for export in exports:
        if export.why:
            killed = any(map(liveness.is_killed, recording.processes["state"].to_list()))
            why = f"{export.why}{'; the job was killed before aclprof had ended' if killed else ''}"
            recording.info.not_collected.append({"what": f"records of aclprof in {export.name}", "why": why})
            recording.counts.damaged_files.append((export.name, why))
    read = [_read(export.output, recording) for export in exports if export.output]
    if not read:
        return
    device = read[0] if len(read) == 1 else _together(read)
    if device.tasks.is_empty() and not device.counters:
        return
    device.whole = _whole(device)
    recording.device = device


def _read(output: str, recording: tables.Recording) -> tables.Device:
    counts = recording.counts
    names = sorted(os.listdir(output))
    found: dict[str, list[str]] = {}
    for name in names:
        if match := _TABLE.fullmatch(name):
            found.setdefault(match["name"], []).append(os.path.join(output, name))
    events = trace_events.read_parts(
        [os.path.join(output, name) for name in names if _TRACE.fullmatch(name)],
        ascend_text.ARGUMENTS,
        counts,
    )
    kernels = _parts(found.pop("op_summary", []), ascend_text.NEEDED, counts, _KERNELS)
    rows = ascend_text.rows_of(kernels, counts)
    tasks = ascend_text.tasks(events, rows)
    callers = ascend_text.launches(events, tasks["start_ns"], ascend_text.BY_DRIVER, "tid")
    ran = tasks.with_columns(
        pl.lit(_process(recording), pl.UInt32).alias("process"), callers.cast(pl.UInt32, strict=False).alias("caller")
    )
    details = _details(kernels)
    ran = device_slots.cut(recording, ran, pl.coalesce("launch_ns", "start_ns"))
    launches = _launches(ran, details, recording)
    calls = device_slots.cut(recording, ascend_text.calls(events), pl.col("start_ns"))
    held = _held(found.pop("memory_record", []), counts)
    return tables.Device(
        tables.Form.ACLPROF,
        ran.select(tables.TASKS.names()),
        ["aclprof"],
        calls=calls,
        transfers=ascend_text.transfers(events, counts),
        memory=device_memory.of_trace(events) if held.is_empty() else held,
        modules=_modules(found.pop("npu_module_mem", []), counts),
        launches=launches,
        details=details,
        counters={name: _parts(paths, (), counts) for name, paths in found.items() if name in tables.COUNTER_TABLES},
    )


def _whole(device: tables.Device) -> tables.Whole:
    assert device.launches is not None
    key = ["name", "type", "core"]
    kernels = device.tasks.select(key).unique(maintain_order=True)
    numbered = device.tasks.join(
        kernels.with_row_index("kernel"), on=key, how="left", maintain_order="left", nulls_equal=True
    )
    runs = numbered.with_columns(device.launches["thread"]).select(tables.RUNS.names()).cast(tables.RUNS)
    return tables.Whole(runs, kernels, operators.by_level(device.calls))


def _together(read: list[tables.Device]) -> tables.Device:
    """Join the tables of several folders `PROF_*`. Each folder covers another time or another device."""
    first, *_ = read
    order = pl.concat([device.tasks for device in read]).with_row_index("row").sort("start_ns", "end_ns")["row"]
    names = dict.fromkeys(name for device in read for name in device.counters)
    counters = {
        name: pl.concat([device.counters[name] for device in read if name in device.counters], how="diagonal")
        for name in names
    }
    return tables.Device(
        first.form,
        pl.concat([device.tasks for device in read])[order],
        first.files,
        calls=pl.concat([device.calls for device in read]).sort("start_ns", maintain_order=True),
        transfers=pl.concat([device.transfers for device in read]),
        memory=pl.concat([device.memory for device in read]).sort("time_ns", maintain_order=True),
        modules=pl.concat([device.modules for device in read]).sort("time_ns", maintain_order=True),
        launches=pl.concat([device.launches for device in read if device.launches is not None])[order],
        details=pl.concat([device.details for device in read if device.details is not None], how="diagonal"),
        counters=counters,
    )


def _parts(
    paths: Sequence[str], needed: Sequence[str], counts: ReadCounts, names: dict[str, str] | None = None
) -> pl.DataFrame:
    """Return a table that msprof split into several files, with all cells as text; empty if no file has rows."""
    found = [ascend_text.text(path, needed, counts, names) for path in paths]
    return pl.concat([part for part in found if not part.is_empty()] or [pl.DataFrame()], how="diagonal")


def _process(recording: tables.Recording) -> int:
    """Return the pid of the main process, which recorded the device; 0 if unknown."""
    main = recording.processes.filter(pl.col("role") == "main")["process"]
    return int(main[0]) if len(main) else 0


def _details(kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of kernels that `tables.TASKS` lacks, as text; `stream` and `start_ns` identify the kernel."""
    if kernels.is_empty():
        return pl.DataFrame(schema={"stream": pl.UInt32, "start_ns": pl.Int64})
    others = [name for name in kernels.columns if name not in _KNOWN]
    return kernels.select(
        pl.col("Stream ID").cast(pl.UInt32, strict=False).alias("stream")
        if "Stream ID" in kernels.columns
        else pl.lit(None, pl.UInt32).alias("stream"),
        nanoseconds(pl.col("Start Time(us)")).alias("start_ns"),
        *(pl.col(name).str.strip_chars().replace("", None) for name in others),
    )


def _launches(ran: pl.DataFrame, details: pl.DataFrame, recording: tables.Recording) -> pl.DataFrame:
    """Return `tables.LAUNCHES`: the thread of the call that launched each kernel, and the kernel's number of blocks."""
    blocks = pl.DataFrame(schema={"stream": pl.UInt32, "start_ns": pl.Int64, "amount": pl.UInt64})
    if "Block Num" in details.columns:
        amount = pl.col("Block Num").cast(pl.UInt64, strict=False).alias("amount")
        blocks = details.select("stream", "start_ns", amount).unique(["stream", "start_ns"], keep="first")
    placed = assembly.on_threads(ran, recording.threads, "caller").join(
        blocks, on=["stream", "start_ns"], how="left", maintain_order="left"
    )
    return placed.select(
        "thread",
        pl.lit(0).alias("correlation"),
        pl.lit(recording.info.device_id).alias("device"),
        pl.lit(0).alias("context"),
        pl.lit(0).alias("graph"),
        pl.col("amount").fill_null(0),
        pl.lit(None).alias("bytes"),
    ).cast(tables.LAUNCHES)


def _bytes(table: pl.DataFrame, name: str) -> pl.Expr:
    """Return a column of sizes, converted from KB or MB to bytes; null if the table lacks the column."""
    known = [(name + unit, size) for unit, size in _UNITS.items() if name + unit in table.columns]
    if not known:
        return pl.lit(None, pl.Int64)
    column, size = known[0]
    return (pl.col(column).str.strip_chars().cast(pl.Float64, strict=False) * size).round().cast(pl.Int64, strict=False)


def _modules(paths: Sequence[str], counts: ReadCounts) -> pl.DataFrame:
    """Return the memory that CANN's modules reserved, as `tables.MODULE_MEMORY`. `paths`: files of `npu_module_mem`."""
    table = _parts(paths, ("Component", "Timestamp(us)"), counts)
    if table.is_empty():
        return pl.DataFrame(schema=tables.MODULE_MEMORY)
    return _usable(
        table.select(
            pl.col("Component").alias("module"),
            nanoseconds(pl.col("Timestamp(us)")).alias("time_ns"),
            _bytes(table, "Total Reserved").alias("reserved"),
        ),
        counts,
    ).cast(tables.MODULE_MEMORY)


def _held(paths: Sequence[str], counts: ReadCounts) -> pl.DataFrame:
    """Return the memory of components as `tables.DEVICE_MEMORY`. `paths`: files of the table `memory_record`."""
    table = _parts(paths, ("Component", "Timestamp(us)"), counts)
    if table.is_empty():
        return pl.DataFrame(schema=tables.DEVICE_MEMORY)
    return _usable(
        table.select(
            pl.col("Component").alias("component"),
            nanoseconds(pl.col("Timestamp(us)")).alias("time_ns"),
            _bytes(table, "Total Allocated").alias("allocated"),
            _bytes(table, "Total Reserved").alias("reserved"),
            pl.lit(None, pl.Int64).alias("active"),
            pl.lit(None, pl.Int64).alias("stream"),
        ),
        counts,
        ["component", "time_ns"],
    ).cast(tables.DEVICE_MEMORY)


def _usable(table: pl.DataFrame, counts: ReadCounts, needed: list[str] | None = None) -> pl.DataFrame:
    usable = table.drop_nulls(needed)
    counts.damaged_memory += table.height - usable.height
    return usable.sort("time_ns", maintain_order=True)
