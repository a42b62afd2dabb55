"""Answer SQL queries over the tables of runs (https://docs.pola.rs/api/python/stable/reference/sql/).

With several runs, a table holds the rows of all; its first two columns, `directory` and `rank`, distinguish the runs.
Only the tables named in a query are made.
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

#: columns that every table has before its own
RUN: Final = (
    Column("directory", pl.String, "name of the result directory"),
    Column("rank", pl.Int64, "of the run in its launch"),
)
#: tables without rows when operators compute on a processor
_KERNELS: Final = ("kernels", "kernel_sums")
_WORD: Final = re.compile(r"\w+")
#: messages of Polars about an unknown table, and about an unknown column
_NO_TABLE: Final = re.compile(r"relation '([^']*)' was not found")
_NO_COLUMN: Final = re.compile(r"unable to find column \"([^\"]*)\"|no column named '([^']*)' found")


@dataclass
class Answer:
    """The answer to a query.

    Attributes:
        table: its rows.
        notes: remarks for readers of the rows: tables that are empty, or that do not hold everything.
    """

    table: pl.DataFrame
    notes: list[str] = field(default_factory=list)


def ask(directories: Sequence[str], query: str) -> Answer:
    """Run a query over the tables of results.

    Args:
        directories: result directories, parents of some, or traces.
        query: one statement.

    Raises:
        StoreError: no directory holds anything that can be read.
        UsageError: the query cannot be run; there is no such table or column.
    """
    words = set(_WORD.findall(query.lower()))
    named = [table for table in catalogue.TABLES if table.name in words]
    frames: dict[str, list[pl.LazyFrame]] = {table.name: [] for table in named}
    notes, large = [], False
    for path in engine.find(directories) if named else ():
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
                lazy, told = found.lazy(), _notes(table, found, measures)
                table_cache.store(path, table, rank, found, told)
                notes += told
            frames[table.name].append(_of_run(lazy, name, rank))
    made = {name: pl.concat(parts) for name, parts in frames.items()}
    # the other tables are registered without rows, so that SHOW TABLES lists them
    others = {table.name: pl.LazyFrame(schema=table.schema) for table in catalogue.TABLES}
    context = pl.SQLContext(others | made, eager=False)
    try:
        # lazily only for tables that have parts: tables in memory keep their order in more queries
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
            f"{table.name} holds {present:,} of {whole:,} in {directory}, those of the first, the slowest and the last "
            f"steps; sums over all are in {table.name.removesuffix('s')}_sums."
        ]
    return []


def _kernels(measures: Measures) -> tuple[int, int]:
    return measures.stream.count, measures.stream.table.height


#: tables that hold only a part of a long run, with the number of all rows and of the rows that they hold
_WHOLE: Final[dict[str, Callable[[Measures], tuple[int, int]]]] = {"kernels": _kernels}


def _explained(message: str, named: Sequence[Table]) -> UsageError:
    """Return the error of Polars in one line, with the existing tables or columns."""
    if match := _NO_TABLE.search(message):
        names = ", ".join(table.name for table in catalogue.TABLES)
        return UsageError(f"There is no table {match[1]}.", f"There are {names}.")
    if match := _NO_COLUMN.search(message):
        run = [column.name for column in RUN]
        there = "; ".join(f"{table.name} has {', '.join([*run, *table.schema])}" for table in named)
        return UsageError(f"There is no column {match[1] or match[2]}.", f"{there}.")
    return UsageError(f"The query cannot be run: {message.splitlines()[0].rstrip('.')}.", _HELP)


_HELP: Final = "Tables and columns: `ms-profiler tables`."
