"""`ms-profiler tables`: list the tables that can be asked for, on the terminal or into a document."""

import argparse
from typing import TYPE_CHECKING

from ms_profiler.cli.document import Marks
from ms_profiler.errors import DependencyError

if TYPE_CHECKING:
    from ms_profiler.analysis.catalogue import Column, Table

NAME = "tables"
HELP = "list the tables of `ms-profiler sql` and `ms-profiler analyse --export parquet`"
MARKS = Marks("tables")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--write", metavar="FILE", help=f"replace what stands between {MARKS} in a Markdown file")


def run(args: argparse.Namespace) -> int:
    """Print the tables, or write them into a document.

    Raises:
        DependencyError: Polars is not installed.
        UsageError: the document cannot be read or has no place for them.
    """
    if args.write is None:
        print(listing(), end="")
    else:
        MARKS.write(args.write, markdown())
    return 0


def listing() -> str:
    """Return the tables as text for a terminal."""
    lines = []
    for table in _tables():
        lines.append(f"{table.name}: {table.meaning}".replace("`", ""))
        lines += [
            f"    {column.name:<14}{_kind(column):<9}{column.meaning}".replace("`", "") for column in table.columns
        ]
    return "\n".join(lines) + "\n"


def markdown() -> str:
    """Return the tables as Markdown."""
    parts = []
    for table in _tables():
        rows = "".join(f"| `{column.name}` | {_kind(column)} | {column.meaning} |\n" for column in table.columns)
        parts.append(f"### {table.name}\n\n{table.meaning}\n\n| Column | Type | Meaning |\n| --- | --- | --- |\n{rows}")
    return "\n" + "\n".join(parts) + "\n"


def _tables() -> "tuple[Table, ...]":
    try:
        from ms_profiler.analysis.catalogue import TABLES
    except ModuleNotFoundError as error:
        raise DependencyError(f"Listing the tables needs Polars ({error}).") from error
    return TABLES


def _kind(column: "Column") -> str:
    return str(column.kind)
