"""communication_analyzer.db: exchanges with other ranks, and the steps, as tables.

The run has another database, but msprof-analyze reads exchanges and steps only from this file. The rows are those of
`communication.json`, `communication_matrix.json` and `step_trace_time.csv`, without the totals in these files. A group
of ranks appears as the number that msprof-analyze computes from the group's name. torch_npu calls the file analysis.db.
"""

import os
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import group_numbers
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.writers import (
    communication_json,
    communication_matrix,
    database,
    database_schema as schema,
    step_trace_time,
)
from ms_profiler.store import layout

_TIMES: Final = (
    "Start Timestamp(us)",
    "Elapse Time(ms)",
    "Transit Time(ms)",
    "Wait Time(ms)",
    "Synchronization Time(ms)",
    "Idle Time(ms)",
)
_LINK: Final = ("Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)")


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    name = layout.TORCH_COMMUNICATION_DB if database.of_torch(measures) else layout.COMMUNICATION_DB
    return os.path.join(layout.OUTPUT, name)


def applies(measures: Measures) -> bool:
    """Return whether a database was requested, and there is a step or an exchange."""
    return database.applies(measures) and (step_trace_time.applies(measures) or communication_json.applies(measures))


def fill(measures: Measures, connection: sqlite3.Connection) -> None:
    """Make the tables that have rows."""
    if step_trace_time.applies(measures):
        texts = step_trace_time.table(measures)
        numbers = texts.select(pl.col("Step").cast(pl.String), pl.exclude("Step").cast(pl.Float64))
        schema.STEP_TRACE_TIME.create(connection, numbers.rename(dict(zip(numbers.columns, _columns(), strict=True))))
    if communication_json.applies(measures):
        content = communication_json.content(measures)
        _create(connection, schema.COMMUNICATION_TIME, _times(content))
        _create(connection, schema.COMMUNICATION_BANDWIDTH, _bandwidths(content))
        if database.of_torch(measures):
            _create(connection, schema.TORCH_MATRIX, _chosen_links(communication_matrix.content(measures)))
        else:
            _create(connection, schema.COMMUNICATION_MATRIX, _links(measures))


def _columns() -> list[str]:
    return list(schema.STEP_TRACE_TIME.columns)


def _create(connection: sqlite3.Connection, table: schema.Table, rows: Iterator[tuple[Any, ...]]) -> None:
    types = {name: pl.String if kind == "TEXT" else pl.Float64 for name, kind in table.columns.items()}
    table.create(connection, pl.DataFrame(list(rows), schema=types, orient="row", strict=False))


def _entries(content: dict[str, Any]) -> Iterator[tuple[str, str, str, str, Any]]:
    """Yield (name, group number, step, kind, values) for each exchange."""
    for step, kinds in content.items():
        for kind, entries in kinds.items():
            for key, values in entries.items():
                if key != communication_json.TOTAL:
                    name, _, group = key.partition("@")
                    yield name, group_numbers.number(group), step, kind, values


def _times(content: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for name, group, step, kind, values in _entries(content):
        yield name, group, *(values[communication_json.TIME][key] for key in _TIMES), step, kind


def _bandwidths(content: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for name, group, step, kind, values in _entries(content):
        for transport, link in values[communication_json.BANDWIDTH].items():
            common = name, group, transport, *(link[key] for key in _LINK), link["Large Packet Ratio"]
            if not link["Transit Size(MB)"]:
                continue
            # a link without a size distribution is the sum of other links
            for size, (count, milliseconds) in (link["Size Distribution"] or {"0": (0, 0)}).items():
                yield *common, float(size), count, milliseconds, step, kind


def _links(measures: Measures) -> Iterator[tuple[Any, ...]]:
    """Yield the bytes of each exchange over each link, in the columns of CANN's own database."""
    for call, pair, link in communication_matrix.by_link(measures):
        name, _, group = call["name"].partition("@")
        source, _, target = pair.partition("-")
        numbers = (link[key] for key in _LINK)
        yield name, group_numbers.number(group), source, target, link["Transport Type"], *numbers


def _chosen_links(content: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the links of `communication_matrix.json`, as torch_npu's file has them."""
    for name, group, step, kind, links in _entries(content):
        for pair, link in links.items():
            source, _, target = pair.partition("-")
            values = source, target, link["Transport Type"], *(link[key] for key in _LINK)
            yield name, group, *values, step, kind, link.get("Op Name", "")
