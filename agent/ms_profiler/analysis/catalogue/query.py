"""Answer SQL queries over the tables of runs (https://docs.pola.rs/api/python/stable/reference/sql/).

With several runs, a table has the rows of all runs. Its first two columns, `directory` and `rank`, tell the run of each
row. Only the tables that a query names are built.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis import catalogue
from ms_profiler.analysis.catalogue import Column, Table, table_cache
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.errors import UsageError
from ms_profiler.store import layout

#: columns that come first in every table
RUN: Final = (
    Column("directory", pl.String, "name of the result directory"),
    Column("rank", pl.Int64, "rank of the run in its launch"),
)
#: tables that are empty when PyTorch's operators compute on the CPU
_KERNELS: Final = ("kernels", "kernel_sums")
_WORD: Final = re.compile(r"\w+")
#: patterns of Polars' messages about an unknown table, and about an unknown column
_NO_TABLE: Final = re.compile(r"relation '([^']*)' was not found")
_NO_COLUMN: Final = re.compile(r"unable to find column \"([^\"]*)\"|no column named '([^']*)' found")


@dataclass
class Answer:
    """The answer to a query.

    Attributes:
        table: the rows of the answer.
        notes: remarks about the tables in the query that are empty or incomplete.
    """

    table: pl.DataFrame
    notes: list[str] = field(default_factory=list)


def ask(directories: Sequence[str], query: str) -> Answer:
    """Run a query over the tables of results.

    Args:
        directories: result directories, directories that contain result directories, or traces of other tools.
        query: one SQL statement.

    Raises:
        StoreError: no directory holds anything that can be read.
        UsageError: the query cannot be run; there is no such table or column.
    """
    words = set(_WORD.findall(query.lower()))
    named = [table for table in catalogue.TABLES if table.name in words]
    frames: dict[str, list[pl.LazyFrame]] = {table.name: [] for table in named}
    notes, large = [], False
    paths = engine.find(directories)  # a wrong directory is an error even if the query names no table
    for path in paths if named else ():
        name = os.path.basename(os.path.abspath(path))
        if (there := table_cache.load(path, named)) is not None:
            for known, one in there.items():
                frames[known].append(_of_run(one.rows, name, one.rank))
                notes += one.notes
            continue
        measures = engine.measured(path)
        rank = measures.recording.info.rank
        for table in named:
            lazy = table.lazily(measures)
            large = large or lazy is not None
            if lazy is None:
                found = table.of(measures)
                lazy, remarks = found.lazy(), _notes(table, found, measures)
                table_cache.store(path, table, rank, found, remarks)
                notes += remarks
            frames[table.name].append(_of_run(lazy, name, rank))
    made = {name: pl.concat(parts) for name, parts in frames.items()}
    # register the tables that the query does not name, too, but without rows: SHOW TABLES lists them
    others = {table.name: pl.LazyFrame(schema=table.schema) for table in catalogue.TABLES}
    context = pl.SQLContext(others | made, eager=False)
    try:
        # stream a query only if a table is too large for memory, because streaming often changes the order of rows
        return Answer(context.execute(query).collect(engine="streaming" if large else "auto"), notes)
    except pl.exceptions.PolarsError as error:
        raise _explained(str(error), named) from None


def _of_run(table: pl.LazyFrame, directory: str, rank: int) -> pl.LazyFrame:
    columns = zip((directory, rank), RUN, strict=True)
    return table.select(*(pl.lit(value, column.kind).alias(column.name) for value, column in columns), pl.all())


def _notes(table: Table, found: pl.DataFrame, measures: Measures) -> list[str]:
    directory = measures.recording.directory
    if found.is_empty() and table.name in _KERNELS and not measures.host_operators.is_empty():
        return [
            f"{table.name} is empty in {directory}: PyTorch's operators computed on the processor themselves; they are "
            f"rows of spans with category 'op', and of {layout.KERNEL_DETAILS}."
        ]
    if found.is_empty():
        return [f"{table.name} is empty in {directory}: it was not recorded, or nothing of the kind happened."]
    whole, present = _WHOLE[table.name](measures) if table.name in _WHOLE else (0, 0)
    if present < whole:
        return [
            f"{table.name} holds {present:,} of {whole:,} in {directory}, those of the first, the slowest, the last "
            f"and some other steps; sums over all are in {table.name.removesuffix('s')}_sums."
        ]
    return []


def _kernels(measures: Measures) -> tuple[int, int]:
    return measures.stream.count, measures.stream.table.height


#: table that may lack rows of a long run -> function that returns (number of all rows, number of rows in the table)
_WHOLE: Final[dict[str, Callable[[Measures], tuple[int, int]]]] = {"kernels": _kernels}


def _explained(message: str, named: Sequence[Table]) -> UsageError:
    """Return an error for a message of Polars. If the query has an unknown name, the error lists the known names."""
    if match := _NO_TABLE.search(message):
        names = ", ".join(table.name for table in catalogue.TABLES)
        return UsageError(f"There is no table {match[1]}.", f"There are {names}.")
    if match := _NO_COLUMN.search(message):
        run = [column.name for column in RUN]
        there = "; ".join(f"{table.name} has {', '.join([*run, *table.schema])}" for table in named)
        return UsageError(f"There is no column {match[1] or match[2]}.", f"{there}.")
    return UsageError(f"The query cannot be run: {message.splitlines()[0].rstrip('.')}.", _HELP)


_HELP: Final = "Tables and columns: `ms-profiler tables`."
