"""`ms-profiler tables`: list the tables of `ms-profiler sql`, or the files of a result, with all columns."""

import argparse
from typing import TYPE_CHECKING

from ms_profiler.cli.document import Marks
from ms_profiler.errors import DependencyError

if TYPE_CHECKING:
    from ms_profiler.analysis.catalogue import Column, Table
    from ms_profiler.analysis.catalogue.result_file import ResultFile

NAME = "tables"
HELP = "list every column of the tables of `ms-profiler sql`, or of the files of a result"
MARKS = Marks("tables")
FILE_MARKS = Marks("files")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--files", action="store_true", help="list the files of a result instead")
    parser.add_argument("--write", metavar="FILE", help="replace the list between the two marks of a Markdown file")


def run(args: argparse.Namespace) -> int:
    """Print the list of tables or files, or write it into a document.

    Raises:
        DependencyError: Polars is not installed.
        UsageError: the document cannot be read, or lacks the marks between which the list stands.
    """
    if args.write is None:
        print(file_listing() if args.files else listing(), end="")
    elif args.files:
        FILE_MARKS.write(args.write, file_markdown())
    else:
        MARKS.write(args.write, markdown())
    return 0


def file_listing() -> str:
    """Return a list of the files of a result, with their columns, as text for a terminal."""
    lines = []
    for file in (file for files in _groups().values() for file in files):
        width = max(map(len, file.columns)) + 2
        lines.append(f"{file.name}: {file.meaning}".replace("`", ""))
        lines += [f"    {name:<{width}}{meaning}".replace("`", "") for name, meaning in file.columns.items()]
    return "\n".join(lines) + "\n"


def file_markdown() -> str:
    """Return a list of the files of a result, with their columns, as Markdown."""
    parts = []
    for heading, files in _groups().items():
        parts.append(f"## {heading}\n")
        for file in files:
            rows = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in file.columns.items())
            parts.append(f"### {file.name}\n\n{file.meaning}\n\n| Column | Meaning |\n| --- | --- |\n{rows}")
    return "\n" + "\n".join(parts) + "\n"


def listing() -> str:
    """Return a list of the tables that SQL can query, with their columns, as text for a terminal."""
    lines = []
    for table in _tables():
        lines.append(f"{table.name}: {table.meaning}".replace("`", ""))
        lines += [
            f"    {column.name:<16}{_kind(column):<9}{column.meaning}".replace("`", "") for column in table.columns
        ]
    return "\n".join(lines) + "\n"


def markdown() -> str:
    """Return a list of the tables that SQL can query, with their columns, as Markdown."""
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


def _groups() -> "dict[str, tuple[ResultFile, ...]]":
    try:
        from ms_profiler.analysis.catalogue.file_list import GROUPS
    except ModuleNotFoundError as error:
        raise DependencyError(f"Listing the files needs Polars ({error}).") from error
    return GROUPS


def _kind(column: "Column") -> str:
    return str(column.kind)
