"""Read results of MindSpore's and PyTorch's profilers for Ascend that were exported as a database (SQLite).

The tables of `ascend_{framework}_profiler_{rank}.db`:

- TASK: one row for each task on the device, with times in nanoseconds since the epoch
- COMPUTE_TASK_INFO: the tasks that are kernels, by `globalTaskId`
- COMMUNICATION_OP: the communication operators, called exchanges in this project
- STEP_TIME: the steps
- PYTORCH_API and CANN_API: the calls of the host
- STRING_IDS: all texts; other tables refer to a text by its number

A task and the CANN call that launched it have the same `connectionId`. A PyTorch call may launch several tasks. So the
`connectionId` of a PyTorch call is the number of a list in CONNECTION_IDS. A missing table counts as empty.
"""

import os
import re
import sqlite3
from typing import Any, Final
from urllib.parse import quote

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import ascend_run, assembly, cells, device_memory
from ms_profiler.analysis.readers.trace_text import TEXT
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from ms_profiler.store.reader import ReadCounts

NAME: Final = re.compile(r"ascend_(pytorch|mindspore)_profiler(_\d+)?\.db")
_FRAMEWORK: Final = "PYTORCH_API"
_DRIVER: Final = "CANN_API"
_STACKS: Final = "trace"
_NOTHING: Final = "N/A"
#: value of the column `size` if the size of a transfer was not recorded
_NO_SIZE: Final = -1
_CALLS: Final = pl.Schema(
    {name: kind for name, kind in assembly.HOST.items() if name not in ("category", "unfinished")}
)
#: key in META_DATA that only databases of ms-profiler have
_OURS: Final = "ms_profiler"

#: errors for a damaged file; Python decodes SQLite's own message strictly, which may quote bytes of the file
_DAMAGE: Final = (sqlite3.DatabaseError, UnicodeDecodeError)


def database(directory: str, ours: frozenset[str] = frozenset()) -> str | None:
    """Return the path of the result's database; None if the result has no database.

    Args:
        directory: the directory that holds `ASCEND_PROFILER_OUTPUT`.
        ours: paths, relative to the directory, of files that ms-profiler wrote; these files are ignored.
    """
    output = layout.output_dir(directory)
    names = sorted(os.listdir(output)) if os.path.isdir(output) else []
    theirs = [name for name in names if NAME.fullmatch(name) and os.path.join(layout.OUTPUT, name) not in ours]
    return os.path.join(output, theirs[0]) if theirs else None


def read(directory: str, path: str, ours: frozenset[str] = frozenset()) -> tables.Recording:
    """Read the result of an Ascend profiler from its database.

    Args:
        directory: the directory that holds `ASCEND_PROFILER_OUTPUT`.
        path: the path of the database in this directory.
        ours: paths, relative to the directory, of files that ms-profiler wrote.

    Raises:
        StoreError: the database has no event that can be read.
    """
    counts = ReadCounts()
    info = ascend_run.describe(directory, counts)
    # with `immutable`, SQLite makes no further files beside the database; ms-profiler only reads the database
    connection = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1", uri=True)
    # cut the bytes before decoding them: a character of UTF-8 has at most four bytes
    connection.text_factory = lambda content: content[: 4 * TEXT].decode("utf-8", "replace")[:TEXT]
    try:
        source = _Database(connection, os.path.basename(path), counts)
        device_id = source.rows("RANK_DEVICE_MAP", "deviceId")
        if device_id and isinstance(device_id[0][0], int):
            info.device_id = max(device_id[0][0], 0)
        form = ascend_run.form(directory)
        if _OURS in {name for (name,) in source.rows("META_DATA", "name")}:
            form = tables.Form.MS_PROFILER
        tasks = source.tasks()
        device = tables.Device(
            form,
            tasks.select(tables.TASKS.names()),
            [source.name],
            calls=source.calls(),
            transfers=source.transfers(),
            memory=device_memory.of_database(source.rows, source.text, counts),
            allocations=device_memory.allocations(source.rows, source.text, counts),
            modules=device_memory.modules(source.rows, counts),
        )
        ascend_run.note(info, device, directory, ours)
        callers = {assembly.TASKS: tasks["caller"].cast(pl.String)}
        parts = assembly.Parts(source.host(), device.tasks, {}, source.process(), device, callers)
    finally:
        connection.close()
    return assembly.assemble(directory, info, counts, parts)


class _Database:
    """The tables of one database file. A table that cannot be read is empty, and counts as damage."""

    def __init__(self, connection: sqlite3.Connection, name: str, counts: ReadCounts) -> None:
        self.connection, self.name, self.counts = connection, name, counts
        self.columns: dict[str, list[str]] = {}
        try:
            # a parameter, because other tools give tables any name
            described = connection.execute(
                "SELECT tables.name, columns.name FROM sqlite_master AS tables,"
                " pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'"
            )
            for table, column in described:
                self.columns.setdefault(table, []).append(column)
        except _DAMAGE as error:
            counts.damaged_files.append((name, _why(error)))
        self.texts = {number: text for number, text in self.rows("STRING_IDS", "id", "value") if isinstance(text, str)}

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return columns of a table. A missing column is null. If the table is damaged, return the rows before that."""
        known = self.columns.get(table)
        if known is None:
            return []
        chosen = ", ".join(column if column in known else "NULL" for column in columns)
        found: list[tuple[Any, ...]] = []
        try:
            for row in self.connection.execute(f"SELECT {chosen} FROM {table}"):
                found.append(row)
        except _DAMAGE as error:
            self.counts.damaged_files.append((f"{self.name}, table {table}", _why(error)))
        return found

    def tasks(self) -> pl.DataFrame:
        """Return `tables.TASKS` with a further column `caller`: the native id of the thread that launched the task."""
        columns = "globalTaskId", "startNs", "endNs", "streamId", "connectionId"
        times = {row[0]: row[1:] for row in self.rows("TASK", *columns)}
        driver = self._driver()
        launches = {**driver, **self._launches()}
        unknown = None, None
        found: list[tuple[Any, ...]] = []
        for task, name, kind, core, shapes in self.rows(
            "COMPUTE_TASK_INFO", "globalTaskId", "name", "opType", "taskType", "inputShapes"
        ):
            start, end, stream, connection = times.get(task, (None, None, None, None))
            texts = self.text(name), self.text(kind), self.text(core), None, self._shapes(shapes)
            launch, caller = launches.get(connection, unknown)
            found.append((stream, *texts, start, end, False, launch, driver.get(connection, unknown)[0], caller))
        for name, start, end, connection, group, kind in self.rows(
            "COMMUNICATION_OP", "opName", "startNs", "endNs", "connectionId", "groupName", "opType"
        ):
            own = self.text(name), self.text(kind), "HCCL", self.text(group) or "", None
            launch, caller = launches.get(connection, unknown)
            found.append((0, *own, start, end, True, launch, driver.get(connection, unknown)[0], caller))
        table = cells.typed(found, pl.Schema([*tables.TASKS.items(), ("caller", pl.Int64)]))
        usable = table.filter(pl.col("end_ns") >= pl.col("start_ns"), pl.col("name").is_not_null())
        self.counts.damaged_kernels += table.height - usable.height
        return usable.with_columns(pl.col("stream").fill_null(0), pl.col("core").fill_null("N/A")).sort(
            "start_ns", "end_ns", maintain_order=True
        )

    def host(self) -> pl.DataFrame:
        """Return the host's spans as `assembly.HOST`, without Python stacks, which are not the framework's work."""
        kinds = dict(self.rows("ENUM_API_TYPE", "id", "name"))
        frames = [self._steps()]
        for table in (_FRAMEWORK, _DRIVER):
            found = [
                # PyTorch writes times as text
                (self._thread(thread), self.text(name), _number(start), _number(end))
                for start, end, thread, name, kind in self.rows(table, "startNs", "endNs", "globalTid", "name", "type")
                if kinds.get(kind) != _STACKS
            ]
            frame = cells.typed(found, _CALLS)
            usable = frame.filter(pl.col("end_ns") >= pl.col("start_ns"), pl.col("name").is_not_null())
            self.counts.damaged_events += frame.height - usable.height
            usable = usable.filter(pl.col("name").str.extract(assembly.STEP.pattern, 1).is_null())
            kind = assembly.categorised(usable["name"])
            if table == _DRIVER:
                kind = pl.repeat(int(Category.OTHER), usable.height, dtype=pl.UInt8, eager=True)
            frames.append(usable.with_columns(kind.alias("category"), unfinished=False).select(assembly.HOST.names()))
        return pl.concat(frames)

    def calls(self) -> pl.DataFrame:
        """Return the driver's calls on the host as `tables.DRIVER_CALLS`."""
        levels = dict(self.rows("ENUM_API_TYPE", "id", "name"))
        found = [
            (levels.get(kind, ""), self.text(name), start, end, self._thread(thread))
            for start, end, name, kind, thread in self.rows(_DRIVER, "startNs", "endNs", "name", "type", "globalTid")
        ]
        table = cells.typed(found, tables.DRIVER_CALLS)
        return table.filter(pl.col("end_ns") >= pl.col("start_ns"), pl.col("name").is_not_null())

    def transfers(self) -> pl.DataFrame:
        """Return the transfers that the exchanges between ranks consist of, as `tables.TRANSFERS`."""
        exchanges = {row[0]: row[1:] for row in self.rows("COMMUNICATION_OP", "opId", "startNs", "groupName")}
        times = {row[0]: row[1:] for row in self.rows("TASK", "globalTaskId", "startNs", "endNs")}
        transports = dict(self.rows("ENUM_HCCL_TRANSPORT_TYPE", "id", "name"))
        links = dict(self.rows("ENUM_HCCL_LINK_TYPE", "id", "name"))
        found = []
        for exchange, task, plane, kind, transport, link, source, target, size in self.rows(
            "COMMUNICATION_TASK_INFO",
            *("opId", "globalTaskId", "planeId", "taskType", "transportType", "linkType", "srcRank", "dstRank", "size"),
        ):
            start, group = exchanges.get(exchange, (None, None))
            how = self.text(kind), transports.get(transport), links.get(link)
            what = source, target, None if size == _NO_SIZE else size, *times.get(task, (None, None))
            found.append((self.text(group) or "", start, plane, *how, *what))
        return assembly.usable_transfers(cells.typed(found, tables.TRANSFERS), self.counts)

    def process(self) -> int:
        """Return the pid of the job, which is the upper 32 bits of each `globalTid`; 0 if no `globalTid` is known."""
        threads = self.rows(_FRAMEWORK, "globalTid")
        return threads[0][0] >> 32 if threads and isinstance(threads[0][0], int) else 0

    def _steps(self) -> pl.DataFrame:
        """Return the steps as spans of one thread, the thread of the framework's first call: STEP_TIME has none."""
        threads = self.rows(_FRAMEWORK, "globalTid")
        thread = self._thread(threads[0][0]) if threads else 0
        found = [
            (thread, f"ProfilerStep#{number}", int(Category.OTHER), start, end, False)
            for number, start, end in self.rows("STEP_TIME", "id", "startNs", "endNs")
        ]
        steps = cells.typed(found, assembly.HOST)
        usable = steps.filter(pl.col("end_ns") >= pl.col("start_ns"))
        self.counts.damaged_events += steps.height - usable.height
        return usable

    def _driver(self) -> dict[int, tuple[int, int]]:
        """Map each connection id to the begin (ns) and thread of the CANN call with this id."""
        calls = self.rows(_DRIVER, "connectionId", "startNs", "globalTid")
        return {
            connection: (start, self._thread(thread))
            for connection, start, thread in calls
            if connection is not None and isinstance(start, int)
        }

    def _launches(self) -> dict[int, tuple[int, int]]:
        """Map each connection id to the begin (ns) and thread of the PyTorch call whose list contains this id."""
        launches: dict[int, tuple[int, int]] = {}
        lists: dict[int, list[int]] = {}
        for number, connection in self.rows("CONNECTION_IDS", "id", "connectionId"):
            lists.setdefault(number, []).append(connection)
        for number, start, thread in self.rows(_FRAMEWORK, "connectionId", "startNs", "globalTid"):
            if number is not None and str(start).isdecimal():
                launches.update(dict.fromkeys(lists.get(number, []), (int(start), self._thread(thread))))
        return launches

    def text(self, number: Any) -> str | None:
        """Return the text with this number in STRING_IDS; None if the number is unknown."""
        return self.texts.get(number)

    def _shapes(self, number: Any) -> str | None:
        text = self.text(number)
        return None if text is None or text == _NOTHING else text.strip('"')

    @staticmethod
    def _thread(number: Any) -> int:
        return number % 2**32 if isinstance(number, int) else 0


def _why(error: Exception) -> str:
    return "texts that are not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


def _number(text: Any) -> Any:
    return int(text) if isinstance(text, str) and text.isdecimal() else text
