"""Make the rows of the result's database: calls of the host, tasks, exchanges between ranks, and launches of tasks."""

from dataclasses import dataclass

import polars as pl

from ms_profiler.analysis.metrics import operands
from ms_profiler.analysis.metrics.communication import COLLECTIVES
from ms_profiler.analysis.metrics.kernels import HOST_CPU
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.model.tables import TRANSFERS
from ms_profiler.analysis.writers import communication_json
from ms_profiler.analysis.writers.database_schema import (
    LINK_TYPES,
    NO_TYPE,
    NONE,
    OPERATOR,
    TRANSPORT_TYPES,
    UNKNOWN_TYPE,
)
from ms_profiler.analysis.writers.numbers import NOTHING
from ms_profiler.store.format import Category

#: columns of a table of tasks. A task is a kernel of the host, a task of a device, or an operator
_TASK = pl.Schema(
    {
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "stream": pl.UInt32,
        "name": pl.String,
        "type": pl.String,
        "core": pl.String,
        "group": pl.String,
        "shapes": pl.String,
        "exchange": pl.Boolean,
        "process": pl.UInt32,
        "call": pl.UInt32,  # row of the framework's call that launched it
        "driver": pl.UInt32,  # row of the driver's call that launched it
    }
)
_CALL = ["process", "thread", "start_ns", "end_ns", "name"]


@dataclass(frozen=True)
class Rows:
    """The rows of a run's database. They still have texts, which `database` replaces by numbers of STRING_IDS.

    Attributes:
        calls: the calls of the framework, as PYTORCH_API has them.
        driver: calls of the device's driver, as CANN_API has them, but with the text `level` in place of the number
            `type`.
        connections: the rows of CONNECTION_IDS.
        tasks: the rows of TASK.
        kernels: the rows of COMPUTE_TASK_INFO.
        exchanges: the rows of COMMUNICATION_OP.
        parts: the transfers and other tasks that exchanges consist of, as COMMUNICATION_TASK_INFO has them.
    """

    calls: pl.DataFrame
    driver: pl.DataFrame
    connections: pl.DataFrame
    tasks: pl.DataFrame
    kernels: pl.DataFrame
    exchanges: pl.DataFrame
    parts: pl.DataFrame


def rows(measures: Measures) -> Rows:
    """Return the rows of a run.

    `connectionId` connects a task with the driver call that launched it. CONNECTION_IDS connects the task with the
    framework's call that launched it.

    Args:
        measures: the measures of the run.
    """
    calls = _calls(measures)
    device = measures.recording.device
    driver = pl.DataFrame(schema={"level": pl.String, "name": pl.String, "start_ns": pl.Int64})
    if device is not None:
        driver = device.calls
        ran = _of_device(measures, calls, driver)
    else:
        ran = _of_kernels(measures) if measures.stream.decides else _of_operators(measures, calls)
    driver_count = driver.height
    ran = ran.with_columns(
        connectionId=pl.coalesce(pl.col("driver").cast(pl.Int64) + 1, pl.col("call").cast(pl.Int64) + 1 + driver_count)
    )
    connections = ran.drop_nulls("call").select(
        (pl.col("call").cast(pl.Int64) + 1 + driver_count).alias("id"), "connectionId"
    )
    launching = calls["row"].cast(pl.Int64) + 1 + driver_count
    known = launching.is_in(connections["id"].implode())
    tasks = ran.filter(~pl.col("exchange")).with_row_index("globalTaskId")
    exchanges = _exchanges(measures, ran.filter("exchange"))
    parts = _parts(measures, exchanges, tasks.height)
    return Rows(
        calls=calls.select(
            pl.col("start_ns").cast(pl.String).alias("startNs"),
            pl.col("end_ns").cast(pl.String).alias("endNs"),
            _thread("process", "native_tid"),
            pl.when(known).then(launching).alias("connectionId"),
            pl.col("text").alias("name"),
            measures.recording.names.gather(operands.shapes(calls)).alias("inputShapes"),
            pl.lit(OPERATOR).alias("type"),
        ),
        driver=driver.with_row_index("row").select(
            pl.col("start_ns").alias("startNs"),
            pl.col("end_ns").alias("endNs"),
            "level",
            _thread(pl.lit(measures.steps.process), "thread"),
            (pl.col("row").cast(pl.Int64) + 1).alias("connectionId"),
            "name",
        )
        if driver.height
        else pl.DataFrame(),
        connections=connections.unique(maintain_order=True),
        tasks=pl.concat([tasks, parts], how="diagonal").select(
            pl.col("start_ns").alias("startNs"),
            pl.col("end_ns").alias("endNs"),
            pl.lit(measures.recording.info.device_id).alias("deviceId"),
            pl.col("connectionId").fill_null(NONE),
            "globalTaskId",
            pl.col("process").fill_null(measures.steps.process).alias("globalPid"),
            pl.col("core").alias("taskType"),
            pl.lit(NONE).alias("contextId"),
            pl.col("stream").alias("streamId"),
            pl.col("globalTaskId").alias("taskId"),
            pl.lit(NONE).alias("modelId"),
        ),
        kernels=_described(tasks),
        exchanges=exchanges,
        parts=_of_exchanges(parts),
    )


def _thread(process: str | pl.Expr, native: str) -> pl.Expr:
    upper = pl.col(process) if isinstance(process, str) else process
    return (upper.cast(pl.Int64) * 2**32 + pl.col(native).cast(pl.Int64) % 2**32).alias("globalTid")


def _described(tasks: pl.DataFrame) -> pl.DataFrame:
    quoted = pl.concat_str(pl.lit('"'), pl.col("shapes"), pl.lit('"')).fill_null(NOTHING)
    unknown = ("inputFormats", "inputDataTypes", "outputFormats", "outputDataTypes", "outputShapes", "attrInfo")
    return tasks.select(
        "name",
        "globalTaskId",
        pl.lit(0).alias("blockDim"),
        pl.lit(0).alias("mixBlockDim"),
        pl.col("core").alias("taskType"),
        # a kernel without a type has its name here, as in `op_statistic.csv`
        pl.coalesce("type", "name").alias("opType"),
        quoted.alias("inputShapes"),
        *(pl.lit(NOTHING).alias(name) for name in unknown),
    )


def _parts(measures: Measures, exchanges: pl.DataFrame, first: int) -> pl.DataFrame:
    """Return the tasks that exchanges between ranks consist of, numbered from `first` in `globalTaskId`."""
    device = measures.recording.device
    transfers = pl.DataFrame(schema=TRANSFERS) if device is None else device.transfers
    known = exchanges.select(
        pl.col("startNs").alias("exchange_ns"), pl.col("groupName").alias("group"), "opName", "opId", "connectionId"
    ).unique(["exchange_ns", "group"], keep="first")
    return transfers.join(known, on=["exchange_ns", "group"], maintain_order="left").with_columns(
        (pl.int_range(pl.len()) + first).cast(pl.UInt32).alias("globalTaskId"), pl.col("kind").alias("core")
    )


def _of_exchanges(parts: pl.DataFrame) -> pl.DataFrame:
    def number(column: str, names: dict[int, str]) -> pl.Expr:
        numbers = {name: key for key, name in names.items()}
        return pl.col(column).replace_strict(numbers, default=UNKNOWN_TYPE, return_dtype=pl.Int64)

    return parts.select(
        pl.col("opName").alias("name"),
        "globalTaskId",
        pl.col("kind").alias("taskType"),
        pl.col("plane").alias("planeId"),
        pl.col("group").alias("groupName"),
        pl.lit(NO_TYPE).alias("rdmaType"),
        pl.col("source").fill_null(NONE).alias("srcRank"),
        pl.col("target").fill_null(NONE).alias("dstRank"),
        number("transport", TRANSPORT_TYPES).alias("transportType"),
        pl.col("bytes").alias("size"),
        pl.lit(NO_TYPE).alias("dataType"),
        number("link", LINK_TYPES).alias("linkType"),
        "opId",
    )


def _calls(measures: Measures) -> pl.DataFrame:
    """Return the spans of the host, without calls of the driver.

    The column `text` has the name of the span, and `row` its row in the recording's table of spans.
    """
    recording = measures.recording
    chosen = recording.spans.with_row_index("row")
    if measures.chosen is not None:
        table = measures.steps.table
        chosen = chosen.filter(pl.col("end_ns") > table["start_ns"].min(), pl.col("start_ns") < table["end_ns"].max())
    left_out = Category.OTHER if recording.foreign else Category.PROFILER
    return (
        chosen.filter(pl.col("category") != int(left_out))
        .with_columns(pl.lit(recording.names).gather(pl.col("name")).alias("text"))
        .join(recording.threads.select("process", "thread", "native_tid"), on=["process", "thread"], how="left")
        .with_columns(pl.col("native_tid").fill_null(0))
        .sort("row")
    )


def _of_device(measures: Measures, calls: pl.DataFrame, driver: pl.DataFrame) -> pl.DataFrame:
    """Return the tasks of a device.

    ms-profiler's own device tracing records which call launched a task. Other tools record only the time of the launch.
    Then the innermost call that begins at this time counts as the launching call.
    """
    assert measures.recording.device is not None
    numbered = driver.with_row_index("driver").select(pl.col("start_ns").alias("driver_ns"), "driver")
    tasks = measures.recording.device.tasks
    if measures.recording.device.whole is not None:
        known = calls["row"].implode()
        launched = measures.stream.bound.select(pl.when(pl.col("launch").is_in(known)).then("launch").alias("call"))
        tasks = pl.concat([tasks, launched], how="horizontal")
    else:
        by_start = calls.select(pl.col("start_ns").alias("launch_ns"), pl.col("row").alias("call"))
        tasks = tasks.join(by_start.unique("launch_ns", keep="last"), on="launch_ns", how="left", maintain_order="left")
    if measures.chosen is not None:
        table = measures.steps.table
        tasks = tasks.filter(pl.col("start_ns").is_between(table["start_ns"].min(), table["end_ns"].max()))
    return (
        tasks.join(numbered.unique("driver_ns", keep="last"), on="driver_ns", how="left", maintain_order="left")
        .with_columns(pl.lit(measures.steps.process, pl.UInt32).alias("process"))
        .select(_TASK.names())
    )


def _of_kernels(measures: Measures) -> pl.DataFrame:
    """Return the kernels that MindSpore's own recorder of CPU kernels reported, as tasks."""
    stream = measures.stream
    table = stream.table
    return table.select(
        "start_ns",
        (pl.col("start_ns") + pl.col("duration_ns")).alias("end_ns"),
        pl.col("lane").alias("stream"),
        stream.names["full_name"].gather(table["kernel"]).alias("name"),
        stream.names["type"].gather(table["kernel"]),
        stream.names["core"].gather(table["kernel"]),
        pl.lit(None, pl.String).alias("group"),
        stream.texts.gather(table["shapes"]).alias("shapes"),
        stream.names["type"].gather(table["kernel"]).is_in(list(COLLECTIVES)).alias("exchange"),
        "process",
        pl.col("launch").alias("call"),
        pl.lit(None, pl.UInt32).alias("driver"),
    )


def _of_operators(measures: Measures, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the operators that ran on a CPU and are listed like kernels as tasks.

    A task lasts as long as the operator by itself, from the operator's begin on. An operator's own call counts as its
    launch.
    """
    known = calls.select(*_CALL, pl.col("row").alias("call")).unique(_CALL, keep="last")
    own = measures.host_operators.filter("listed").join(known, on=_CALL, how="left", maintain_order="left")
    name = pl.lit(measures.recording.names).gather(pl.col("name"))
    return own.select(
        "start_ns",
        (pl.col("start_ns") + pl.col("self_ns")).alias("end_ns"),
        pl.col("thread").alias("stream"),
        name.alias("name"),
        name.alias("type"),
        pl.lit(HOST_CPU).alias("core"),
        pl.lit(None, pl.String).alias("group"),
        measures.recording.names.gather(operands.shapes(own)).alias("shapes"),
        pl.lit(False).alias("exchange"),
        "process",
        "call",
        pl.lit(None, pl.UInt32).alias("driver"),
    )


def _exchanges(measures: Measures, ran: pl.DataFrame) -> pl.DataFrame:
    """Return the exchanges between ranks, with the names that they have in `communication.json`, if they are there."""
    found = ran.select("start_ns", "end_ns", "name", pl.coalesce("type", "name").alias("type"), "group", "connectionId")
    if not measures.recording.foreign:
        named = pl.DataFrame(
            [
                (call["start_ns"], call["end_ns"], call["name"].partition("@")[0], call["group"])
                for call in communication_json.by_call(measures)
            ],
            schema={"start_ns": pl.Int64, "end_ns": pl.Int64, "name": pl.String, "group": pl.String},
            orient="row",
        )
        kind = named.with_columns(pl.col("name").str.replace(r"__\d+_.*$", "_").alias("type"))
        times = ["start_ns", "end_ns"]
        own = kind.join(found.select(*times, "connectionId").unique(times), on=times, how="left")
        found = pl.concat([own, found.join(named, on=times, how="anti")], how="diagonal").sort("start_ns", "end_ns")
    return found.with_row_index("opId", offset=1).select(
        pl.col("name").alias("opName"),
        pl.col("start_ns").alias("startNs"),
        pl.col("end_ns").alias("endNs"),
        pl.col("connectionId").fill_null(NONE),
        pl.col("group").fill_null("").alias("groupName"),
        "opId",
        pl.lit(0).alias("relay"),
        pl.lit(0).alias("retry"),
        pl.lit(UNKNOWN_TYPE).alias("dataType"),
        pl.lit(NOTHING).alias("algType"),
        pl.col("type").alias("opType"),
    )
