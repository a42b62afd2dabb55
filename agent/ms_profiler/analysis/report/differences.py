"""Show a comparison of two runs to people: on a terminal, and as Markdown."""

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ms_profiler.analysis.comparison.comparing import Comparison
from ms_profiler.analysis.report import sheets, widths
from ms_profiler.analysis.report.console import Terminal
from ms_profiler.analysis.report.sheets import Sheet

#: smallest line width for output into a file
_FILE_WIDTH = 200
_INDENT = 2


def show(found: Comparison, top: int | None = None, console: Console | None = None) -> None:
    """Print a comparison of two runs: first the answer, then its reasons, then every figure that differs.

    Args:
        found: the comparison, from `comparing.compare`.
        top: the number of rows of each table.
        console: where to print; standard output by default, without colours if it is not a terminal.
    """
    out = console or Terminal(highlight=False)
    if not out.is_terminal:
        out.width = max(out.width, _FILE_WIDTH)
    widths.lines(Text(sheets.verdict(found), style="bold"), out)
    for line in sheets.lines(found):
        widths.lines(Text(line), out, "  ")
    for sheet in sheets.sheets(found, top):
        out.print()
        out.print(Text(sheet.title, style="bold"))
        _table(sheet, out)
        for line in sheet.below:
            widths.lines(Text(line), out, " " * _INDENT)


def _table(sheet: Sheet, out: Console) -> None:
    table = widths.table(*sheet.columns)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in sheet.rows:
        table.add_row(*(Text(cell) for cell in row))
    with out.capture() as captured:
        out.print(Padding(widths.fitted(table, out.width - _INDENT), (0, 0, 0, _INDENT)))
    for line in captured.get().splitlines():
        out.print(Text.from_ansi(line.rstrip()), soft_wrap=True)


def markdown(found: Comparison, top: int | None = None) -> str:
    """Return a comparison of two runs as Markdown.

    Args:
        found: the comparison, from `comparing.compare`.
        top: the number of rows of each table.
    """
    return "".join(f"{line}\n" for line in _markdown(found, top))


def _markdown(found: Comparison, top: int | None) -> Iterator[str]:
    yield f"**{_escaped(sheets.verdict(found))}**"
    yield ""
    yield from (f"- {_escaped(line)}" for line in sheets.lines(found))
    for sheet in sheets.sheets(found, top):
        yield from ("", f"### {sheet.title}", "")
        yield f"| {' | '.join(sheet.columns)} |"
        yield f"| --- |{' ---: |' * (len(sheet.columns) - 1)}"
        yield from (f"| {' | '.join(map(_escaped, row))} |" for row in sheet.rows)
        if sheet.below:
            yield ""
            yield from (f"- {_escaped(line)}" for line in sheet.below)


def _escaped(text: str) -> str:
    """Escape the signs of Markdown and HTML in a text, because names of kernels contain `*`, `<` and `|`."""
    for sign in "\\`*_<>|[]":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")
