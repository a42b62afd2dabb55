"""`ms-profiler sql DIR... QUERY`: query the tables of one or several results."""

import argparse
import sys
from typing import TYPE_CHECKING, TextIO

from ms_profiler.cli.notice import say
from ms_profiler.errors import DependencyError

if TYPE_CHECKING:
    import polars as pl

NAME = "sql"
HELP = "run a query over the tables of results (`ms-profiler tables` lists them)"
FORMATS = ("table", "csv", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "directories", nargs="+", metavar="DIR", help="a result directory, a parent of several, or a trace"
    )
    parser.add_argument("query", metavar="QUERY", help='for example "select name, sum(dur) from kernels group by name"')
    parser.add_argument(
        "--format", choices=FORMATS, default="table", help="format of the answer (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the rows that the query returns on stdout, and notes about missing rows on stderr.

    Raises:
        DependencyError: a required package is not installed.
        UsageError: the query cannot be run.
        StoreError: no directory holds anything that can be read.
    """
    try:
        import rich  # noqa: F401

        from ms_profiler.analysis.catalogue import query
    except ModuleNotFoundError as error:
        raise DependencyError(f"Queries need Polars and Rich ({error}).") from error
    answer = query.ask(args.directories, args.query)
    for note in answer.notes:
        say(note)
    {"table": _print_table, "csv": _print_csv, "json": _print_json}[args.format](answer.table, sys.stdout)
    return 0


def _print_csv(table: "pl.DataFrame", to: TextIO) -> None:
    from ms_profiler.analysis.writers import csv_lines

    to.write(csv_lines.inert(table).write_csv())


def _print_json(table: "pl.DataFrame", to: TextIO) -> None:
    to.write(table.write_json() + "\n")


def _print_table(table: "pl.DataFrame", to: TextIO) -> None:
    from ms_profiler.analysis.report import rows

    rows.show(table, to)
