"""`ms-profiler options`: list every option of MS_PROFILER_OPTIONS, on the terminal or in a document."""

import argparse
import textwrap
from collections.abc import Sequence

from ms_profiler import options
from ms_profiler.cli.document import Marks

NAME = "options"
HELP = "list the options of MS_PROFILER_OPTIONS"

MARKS = Marks("options")
BEGIN, END = MARKS.begin, MARKS.end
HEADINGS = ("Option and old names", "Type", "Default", "Meaning")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--write", metavar="FILE", help=f"replace the text between {MARKS} in a Markdown file")


def run(args: argparse.Namespace) -> int:
    """Print the options, or write their table into a document.

    Raises:
        UsageError: the document cannot be read, or lacks the marks between which the table stands.
    """
    if args.write is None:
        print(listing(), end="")
        return 0
    MARKS.write(args.write, table())
    return 0


def listing() -> str:
    """Return the options as text for a terminal, 100 columns wide."""
    lines = []
    for names, kind, default, text in options.describe():
        lines.append(f"{names}  ({kind}{default and f', default {default}'})".replace("`", ""))
        lines += textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def table() -> str:
    """Return the options as a Markdown table."""
    rows: Sequence[Sequence[str]] = [HEADINGS, ["---"] * len(HEADINGS), *options.describe()]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


def rewritten(document: str) -> str:
    """Return a Markdown document with the table of options between its two marks.

    Raises:
        ValueError: the document lacks the marks.
    """
    return MARKS.rewritten(document, table())
