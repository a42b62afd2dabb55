"""Read the kernel stream: text files of MindSpore's own recorder of CPU kernels.

A window is an interval in which this recorder was on. Each window has a folder.

`cpu_op_execute_timestamp_{rank}.txt` has one line for each kernel name, `NAME;HostCpuOps;START,DURATION,LANE
START,...`. A space follows each execution. START is in nanoseconds of the wall clock. DURATION is in milliseconds with
six significant digits; this module rounds it to whole nanoseconds. LANE is MindSpore's number of the thread.

MindSpore writes `cpu_framework_{rank}.txt` afterwards, with one line for each execution, in the order of execution:
`TYPE;NAME;GRAPH;input_1:SHAPE;...`. NAME is the last part of the kernel's name, or empty.

Polars reads all executions at once, 5 million a second. Only the kernel names are processed one by one.
"""

import os
import re
from typing import Final

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.analysis.readers import csv_text
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from ms_profiler.store.names import KERNEL_DRAIN, KERNEL_WINDOW, KERNEL_WINDOW_END
from ms_profiler.store.reader import ReadCounts

#: approximate number of bytes of one execution in the file
EXECUTION_BYTES: Final = 31

_TIMES: Final = "cpu_op_execute_timestamp_"
_SHAPES: Final = "cpu_framework_"
_DETAILS: Final = "cpu_op_detail_info_"
_FULL_NAME: Final = "full_op_name"
_KIND: Final = b"HostCpuOps"
#: a duration beyond this many milliseconds (ten days) is damage
_LONGEST: Final = 1e9
_EXECUTION: Final = re.compile(rb"\d{1,19},[\d.e+-]+,\d{1,9}")
_NUMBERS: Final = pl.Schema({"start_ns": pl.Int64, "ms": pl.Float64, "lane": pl.UInt32})

#: columns of the table of a window's executions
EXECUTIONS: Final = pl.Schema({name: tables.KERNELS[name] for name in ("kernel", "lane", "start_ns", "duration_ns")})


def windows(recording: tables.Recording) -> list[tables.Window]:
    """Return the windows of every process, sorted by process and start.

    If the process did not record the end of a window, the window ends with the start of the next one. The last window
    then ends with the process.

    Args:
        recording: the recording, with its instants, spans and processes.
    """
    found = []
    starts, ends = _marks(recording, KERNEL_WINDOW), _marks(recording, KERNEL_WINDOW_END)
    drains = _drains(recording)
    for process, first_ns, last_ns in recording.processes.select("process", "first_ns", "last_ns").iter_rows():
        folder = layout.process_dir(recording.directory, process)
        # if several runs share a store, some folders belong to windows of other runs. So do not list the folders then:
        # the recording of this run has an event for each of its own windows
        there = set() if recording.info.window else {index for index, _ in layout.windows(folder)}
        indices = sorted(there | {index for owner, index in starts if owner == process})
        for place, index in enumerate(indices):
            after = [starts[key] for other in indices[place + 1 :] if (key := (process, other)) in starts]
            end = ends.get((process, index))
            found.append(
                tables.Window(
                    process=process,
                    index=index,
                    folder=layout.window_dir(folder, index),
                    start_ns=starts.get((process, index), first_ns),
                    end_ns=min([last_ns, *after]) if end is None else end,
                    ended=end is not None,
                    drained=None if end is None else drains.get((process, end)),
                )
            )
    return sorted(found, key=lambda window: (window.process, window.start_ns, window.index))


def size(window: tables.Window) -> int:
    """Return the size in bytes of the file with a window's executions; 0 if the file does not exist."""
    path = _find(window.folder, _TIMES)
    try:
        return 0 if path is None else os.path.getsize(path)
    except OSError:
        return 0  # `read` reports this error


def content(folder: str, prefix: str, counts: ReadCounts) -> bytes:
    """Return the content of a file in the folder of a window; empty if the file is missing or unreadable.

    Args:
        folder: the folder of the window.
        prefix: the first part of the file's name; MindSpore's rank follows it.
        counts: receives the number of files that cannot be read.
    """
    path = _find(folder, prefix)
    if path is None:
        return b""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        counts.damaged_files.append((os.path.basename(path), error.strerror or "cannot be read"))
        return b""


def written(window: tables.Window) -> bool:
    """Return whether MindSpore has written all files of a window: whether the file of shapes, its last file, exists."""
    return _find(window.folder, _SHAPES) is not None


def empty(window: tables.Window) -> bool:
    """Return whether MindSpore has written no file of a window, although its folder exists."""
    try:
        return not os.listdir(window.folder)
    except OSError:
        return False


def read(window: tables.Window, names: dict[str, int], clock: Clock, counts: ReadCounts) -> pl.DataFrame:
    """Return the readable executions of a window as `EXECUTIONS`, sorted by start.

    Args:
        window: the window.
        names: name of a kernel -> its row in the table of kernels, for the kernels known so far; new names are added.
        clock: the clock of the recording.
        counts: receives the number of unreadable parts.
    """
    rows, lengths, texts, damaged = _lines(content(window.folder, _TIMES, counts), names)
    table = _numbers(b"".join(texts), sum(lengths))
    if table is None:
        counts.damaged_files.append((_name(window, _TIMES), "its numbers cannot be read"))
        return pl.DataFrame(schema=EXECUTIONS)
    kernels = pl.DataFrame({"kernel": pl.Series(rows, dtype=pl.UInt32), "length": lengths})
    read = table.with_columns(
        kernels.select(pl.col("kernel").repeat_by("length").explode()).to_series(),
        start_ns=clock.from_wall(table["start_ns"], window.start_ns, window.end_ns),
    )
    usable = read.filter(
        pl.col("start_ns").is_not_null(), pl.col("lane").is_not_null(), pl.col("ms").is_between(0, _LONGEST)
    )
    damaged += read.height - usable.height
    if window.drained is not None:
        damaged = max(damaged, window.drained - usable.height)
    counts.damaged_kernels += damaged
    return usable.select(
        "kernel", "lane", "start_ns", (pl.col("ms") * 1e6).round().cast(pl.Int64).alias("duration_ns")
    ).sort("start_ns", "lane", "kernel")


def shapes(window: tables.Window, kernels: pl.DataFrame, names: list[str], texts: dict[str, int]) -> pl.Series:
    """Return the input shapes of each execution of a window, as rows of `texts`; null if unknown.

    The file of shapes has only the last part of a kernel's name, so several kernels may have the same name there. The
    n-th line with such a name belongs to the n-th execution of these kernels. The shapes are unknown if the numbers of
    lines and executions differ, or if two of these executions overlapped.

    Args:
        window: the window.
        kernels: the executions that `read` returned.
        names: the kernel names; the column `kernel` of `kernels` has places in this list.
        texts: text of shapes -> its row, for the texts known so far; new texts are added.
    """
    noted = _noted(content(window.folder, _SHAPES, ReadCounts()))
    short = pl.Series([_short(name) for name in names], dtype=pl.String)
    ends = pl.col("start_ns") + pl.col("duration_ns")
    runs = kernels.select(short.gather(kernels["kernel"]).alias("short"), "start_ns", "duration_ns").with_columns(
        number=pl.int_range(pl.len()).over("short"),
        crossed=(pl.col("start_ns") < ends.cum_max().shift(1).over("short")).fill_null(False),
    )
    sure = (
        runs.group_by("short")
        .agg(pl.len().alias("runs"), pl.col("crossed").any())
        .join(noted.group_by("short").len(), on="short")
        .filter(pl.col("runs") == pl.col("len"), ~pl.col("crossed"))
    )
    known = noted.join(sure.select("short"), on="short", how="semi")
    if known.is_empty():
        return pl.repeat(None, kernels.height, dtype=pl.UInt32, eager=True)
    distinct = known["shapes"].unique(maintain_order=True)
    lines = [texts.setdefault(_dimensions(text), len(texts)) for text in distinct]
    rows = known["shapes"].replace_strict(distinct, pl.Series(lines, dtype=pl.UInt32), return_dtype=pl.UInt32)
    return runs.join(known.with_columns(rows), on=["short", "number"], how="left", maintain_order="left")["shapes"]


def names(window: tables.Window) -> set[str]:
    """Return the full names of the kernels of a window, from the file with one line for each kernel."""
    lines = content(window.folder, _DETAILS, ReadCounts()).decode("utf-8", "replace").splitlines()
    cells = [line.split(",") for line in lines]
    if not cells or _FULL_NAME not in cells[0]:
        return set()
    column = cells[0].index(_FULL_NAME)
    return {row[column] for row in cells[1:] if len(row) > column}


def _marks(recording: tables.Recording, name: str) -> dict[tuple[int, int], int]:
    """Map the process and index of each window to the time (ns) of the window's event that has this name."""
    rows = (recording.names == name).arg_true()
    marked = recording.instants.filter(
        pl.col("category") == Category.PROFILER, pl.col("name").is_in(rows.cast(pl.UInt32).implode())
    )
    return {(process, arg): time for process, arg, time in marked.select("process", "arg", "time_ns").iter_rows()}


def _drains(recording: tables.Recording) -> dict[tuple[int, int], int]:
    """Map the process and end (ns) of each window to the number of kernels that the process counted in the window."""
    rows = (recording.names == KERNEL_DRAIN).arg_true()
    drains = recording.spans.filter(
        pl.col("category") == Category.PROFILER, pl.col("name").is_in(rows.cast(pl.UInt32).implode())
    )
    ends = sorted((process, end) for (process, _), end in _marks(recording, KERNEL_WINDOW_END).items())
    found = {}
    for process, start, end, kernels in drains.select("process", "start_ns", "end_ns", "arg").iter_rows():
        for owner, time in ends:
            if owner == process and start <= time <= end:
                found[process, time] = kernels
    return found


def _find(folder: str, prefix: str) -> str | None:
    """Return the path of the first file whose name begins with `prefix`; None without such a file."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith(prefix))
    except OSError:
        return None
    return os.path.join(folder, names[0]) if names else None


def _name(window: tables.Window, prefix: str) -> str:
    path = _find(window.folder, prefix) or prefix
    parts = (f"process_{window.process}", layout.KERNELS, os.path.basename(window.folder), os.path.basename(path))
    return os.path.join(*parts)


def _lines(content: bytes, names: dict[str, int]) -> tuple[list[int], list[int], list[bytes], int]:
    """Split the content into lines.

    Returns:
        Three lists with an entry for each line: the row of the kernel name, the number of executions, and the text of
        the executions. The last value is the number of damaged lines and executions.
    """
    rows: list[int] = []
    lengths: list[int] = []
    texts: list[bytes] = []
    damaged = 0
    for line in content.split(b"\n"):
        name, _, rest = line.partition(b";")
        kind, _, text = rest.partition(b";")
        if kind != _KIND:
            damaged += bool(line)
            continue
        whole, space, cut = text.rpartition(b" ")
        damaged += bool(cut.strip())
        text = whole + space
        if b"  " in text or text.startswith(b" "):
            text = b" ".join(text.split()) + b" "
        if text.strip():
            rows.append(names.setdefault(name.decode("utf-8", "replace"), len(names)))
            lengths.append(text.count(b" "))
            texts.append(text)
    return rows, lengths, texts, damaged


def _numbers(text: bytes, count: int) -> pl.DataFrame | None:
    """Return a row of numbers for each execution, null for an invalid number; None if there are not `count` rows."""
    if not count:
        return pl.DataFrame(schema=_NUMBERS)
    table = _csv(text.replace(b" ", b"\n"))
    if table is None or table.height != count:
        # a damaged execution can hide others from Polars, so replace it with a line without numbers
        whole = (part if _EXECUTION.fullmatch(part) else b",," for part in text.removesuffix(b" ").split(b" "))
        table = _csv(b"\n".join(whole))
    return table if table is not None and table.height == count else None


def _csv(text: bytes) -> pl.DataFrame | None:
    try:
        return csv_text.read(
            text,
            has_header=False,
            schema=_NUMBERS,
            quote_char=None,
            ignore_errors=True,
            truncate_ragged_lines=True,
        )
    except pl.exceptions.PolarsError:
        return None


def _noted(content: bytes) -> pl.DataFrame:
    """Parse the file of shapes into `short`, `number` and `shapes`. `number` counts the lines with the same `short`."""
    schema = {"line": pl.String}
    whole = content[: content.rfind(b"\n") + 1]
    try:
        lines = csv_text.read(
            whole, has_header=False, schema=schema, separator="\x01", quote_char=None, encoding="utf8-lossy"
        )
    except pl.exceptions.PolarsError:
        lines = pl.DataFrame(schema=schema)
    parts = lines.select(pl.col("line").str.splitn(";", 4).struct.rename_fields(["type", "short", "graph", "shapes"]))
    return (
        parts.unnest("line")
        .filter(pl.col("short") != "")
        .select("short", pl.int_range(pl.len()).over("short").alias("number"), pl.col("shapes").fill_null(""))
    )


def _short(name: str) -> str | None:
    """Return the name of a kernel in the file of shapes; None if MindSpore writes no shapes for the kernel."""
    last = name.rpartition("/")[2]
    return last if "-" in last else None


def _dimensions(text: str) -> str:
    """Return the dimensions of each input, `4,8;8;`, from `input_1:[4, 8];input_2:[8];input_3:NoShape;`."""
    inputs = [part.partition(":")[2].replace(" ", "") for part in text.split(";") if part]
    return ";".join(_plain(shape) for shape in inputs)


def _plain(shape: str) -> str:
    if re.fullmatch(r"\[[\d,-]*\]", shape):
        return shape[1:-1]
    return shape if "[" in shape else ""
