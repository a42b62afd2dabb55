"""ascend_{framework}_profiler_{rank}.db: the run as a database, for the recipes of msprof-analyze.

The file is written if `export_type` has "db". There is an exception: ms-profiler does not write a database for another
tool's result that is itself a database. `database_schema` has the tables. Tables that readers join exist even without
rows. STEP_TIME has only recorded steps. Exchanges with other ranks are in COMMUNICATION_OP, not in COMPUTE_TASK_INFO.
Kernels of a GPU are tasks of the type GPU. META_DATA has the schema's version, the members of each group of ranks, and
the key `ms_profiler`.
"""

import json
import os
import sqlite3
import zlib

import polars as pl

from ms_profiler.analysis.metrics import memory
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.model.tables import Form
from ms_profiler.analysis.writers import database_rows, database_schema as schema, memory_record, metadata
from ms_profiler.store import layout
from ms_profiler.store.format import StepSource

FORM = "db"
_VERSION = ("1", "0", "0")


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.database(measures.recording.info.rank, torch=of_torch(measures)))


def of_torch(measures: Measures) -> bool:
    """Return whether torch_npu wrote the result, so that its files have torch_npu's names."""
    device = measures.recording.device
    return device is not None and device.form == Form.TORCH_NPU


def applies(measures: Measures) -> bool:
    """Return whether a database was requested, and the run can have one."""
    return FORM in measures.forms and not refused(measures)


def refused(measures: Measures) -> str:
    """Return a clause that says why a run cannot have a database; empty if it can have one."""
    device = measures.recording.device
    if device is None:
        return ""
    if device.form not in (Form.MINDSPORE, Form.TORCH_NPU, Form.CUPTI, Form.MSPTI, Form.ACLPROF):
        return "only ms-profiler's own recordings and results of Ascend's profilers can have one"
    return "it has one already" if any(name.endswith(".db") for name in device.files) else ""


def left_out(measures: Measures) -> str:
    """Return a sentence that says which steps the database has; empty if it has all steps, or if there is none."""
    detailed = measures.recording.detailed if measures.recording.detailed is not None else measures.stream.detailed
    if detailed is None or not applies(measures):
        return ""
    whole = measures.steps.recorded.height
    return (
        f"{path(measures)} holds the spans and kernels of {len(detailed)} of {whole} steps, the first, the slowest, "
        "the last and some others: sums over it are sums over these steps. --export parquet writes every span; "
        "api_statistic.csv has the sums over all."
    )


def fill(measures: Measures, connection: sqlite3.Connection) -> None:
    """Make all tables of the database."""
    content = database_rows.rows(measures)
    texts = _Texts()
    levels = dict(schema.API_TYPES)
    tables = [
        (schema.TASK, content.tasks),
        (schema.COMPUTE_TASK_INFO, content.kernels),
        (schema.COMMUNICATION_OP, content.exchanges),
        (schema.PYTORCH_API, content.calls),
        (schema.CONNECTION_IDS, content.connections),
        (schema.STEP_TIME, _steps(measures)),
        (schema.RANK_DEVICE_MAP, _one(rankId=measures.recording.info.rank, deviceId=measures.recording.info.device_id)),
        (schema.SESSION_TIME_INFO, _session(measures)),
        (schema.META_DATA, _metadata(measures)),
    ]
    if not content.parts.is_empty():
        tables.append((schema.COMMUNICATION_TASK_INFO, content.parts))
    if content.driver.is_empty():
        tables.append((schema.CANN_API, pl.DataFrame(schema={"connectionId": pl.Int64})))
    else:
        for level in content.driver["level"].unique(maintain_order=True):
            levels.setdefault(level, schema.OPERATOR + 1000 + len(levels))
        kinds = pl.col("level").replace_strict(levels, return_dtype=pl.Int64).alias("type")
        tables.append((schema.CANN_API, content.driver.with_columns(kinds).drop("level")))
    if memory_record.applies(measures):
        tables.append((schema.MEMORY_RECORD, _memory(measures)))
    if host := measures.recording.info.host:
        # hostUid is the same for all ranks of a host
        tables.append((schema.HOST_INFO, _one(hostUid=str(zlib.crc32(host.encode())), hostName=host)))
    for table, rows in tables:
        table.create(connection, texts.numbered(table, rows))
    schema.ENUM_API_TYPE.create(connection, _enumeration({number: name for name, number in levels.items()}))
    schema.ENUM_HCCL_DATA_TYPE.create(connection, _enumeration(schema.DATA_TYPES))
    schema.ENUM_HCCL_TRANSPORT_TYPE.create(connection, _enumeration(schema.TRANSPORT_TYPES))
    schema.ENUM_HCCL_LINK_TYPE.create(connection, _enumeration(schema.LINK_TYPES))
    schema.STRING_IDS.create(connection, texts.table())


class _Texts:
    """Gives each text a number, which the database has in place of the text. Numbers are in the order of the texts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def numbered(self, table: schema.Table, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with numbers in place of texts."""
        columns = [name for name in rows.columns if table.columns[name] == schema.TEXT_ID]
        for name in columns:
            for text in rows[name].drop_nulls().unique(maintain_order=True):
                self._numbers.setdefault(text, len(self._numbers))
        if not self._numbers:
            return rows
        return rows.with_columns(
            pl.col(name).replace_strict(self._numbers, default=None, return_dtype=pl.Int64) for name in columns
        )

    def table(self) -> pl.DataFrame:
        """Return the rows of STRING_IDS."""
        rows = [(number, text) for text, number in self._numbers.items()]
        return pl.DataFrame(rows, schema={"id": pl.Int64, "value": pl.String}, orient="row")


def _one(**values: int | str) -> pl.DataFrame:
    return pl.DataFrame([values])


def _enumeration(names: dict[int, str]) -> pl.DataFrame:
    return pl.DataFrame(list(names.items()), schema={"id": pl.Int64, "name": pl.String}, orient="row")


def _steps(measures: Measures) -> pl.DataFrame:
    steps = measures.steps.recorded
    if measures.steps.source == StepSource.WHOLE_RUN:
        steps = steps.head(0)
    return steps.select(
        pl.col("number").alias("id"), pl.col("start_ns").alias("startNs"), pl.col("end_ns").alias("endNs")
    )


def _session(measures: Measures) -> pl.DataFrame:
    return measures.recording.processes.select(
        pl.col("first_ns").min().alias("startTimeNs"), pl.col("last_ns").max().alias("endTimeNs")
    )


def _memory(measures: Measures) -> pl.DataFrame:
    device = measures.recording.device
    held = measures.memory.with_columns(memory.component(measures.recording), stream=pl.lit(None, pl.Int64))
    if device is not None:
        held = device.memory
    return held.select(
        "component",
        pl.col("time_ns").alias("timestamp"),
        *(pl.col(name).alias(f"total{name.capitalize()}") for name in ("allocated", "reserved", "active")),
        pl.col("stream").alias("streamPtr"),
        pl.lit(measures.recording.info.device_id).alias("deviceId"),
    )


def _metadata(measures: Measures) -> pl.DataFrame:
    info = measures.recording.info
    major, minor, micro = _VERSION
    content = {
        "SCHEMA_VERSION_MAJOR": major,
        "SCHEMA_VERSION_MINOR": minor,
        "SCHEMA_VERSION_MICRO": micro,
        "SCHEMA_VERSION": ".".join(_VERSION),
    }
    if not measures.recording.foreign:
        facts = {**metadata.parallel(measures), **info.metadata}
        content |= {name: value if isinstance(value, str) else json.dumps(value) for name, value in facts.items()}
        content["ms_profiler"] = json.dumps({"version": info.product_version})
    rows = list(content.items())
    return pl.DataFrame(rows, schema={"name": pl.String, "value": pl.String}, orient="row")
