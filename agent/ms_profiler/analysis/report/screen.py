"""The summary on one screen of 80 columns and 24 lines, from `summary.json`; `terminal.py` prints the whole summary."""

import statistics
import textwrap
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from ms_profiler.analysis.report import changes, remarks, stepping, steps_line, terminal, widths
from ms_profiler.analysis.report.bounded import PARTS
from ms_profiler.analysis.report.console import Terminal
from ms_profiler.analysis.report.durations import milliseconds as _ms
from ms_profiler.analysis.report.palette import COLOURS

#: number of lines of a screen, without the line of the next prompt
LINES: Final = 23
#: number of rows of the table of operators
_ROWS: Final = 5
#: the standard errors of scaled totals are shown if one of them is at least this share of its total
_UNSURE: Final = 0.1
_BAR: Final = 60
_SHADES: Final = "█▓▒░"
#: smallest share of the step that a part needs to be shown
_LEAST: Final = 0.005
#: the wait for a processor is shown if it takes at least this share of the steps. It is no part of its own: other parts
#: contain the wait
_CROWDED: Final = 0.2
#: the time of a step on the device is shown if it differs from the time on the host by at least this share
_DIFFERS: Final = 0.1
#: key of `completeness` in the summary -> warning. The screen has room only for the most important warnings.
_LOST: Final = {
    "damaged_events": "events could not be read",
    "damaged_kernels": "kernels could not be read",
    "damaged_memory": "records of memory could not be read",
    "damaged_files": "files could not be read",
    "cut": "records were cut off",
    "unknown": "records are of an unknown kind",
    "backwards": "records have impossible times",
    "impossible": "records have impossible numbers",
    "missing_records": "records are in no file",
}
#: If the text has more lines than the screen, these blocks are shortened one after the other, until the text fits.
#: An entry is (block, number of lines that stay).
_SHORTER: Final = (("advice", 2), ("bounds", 2), ("head", 4), ("advice", 1))


def show(summary: dict[str, Any], directory: str, out: Console) -> None:
    """Print the verdict, the steps, what bounds a step, five operators, the first advice, and where to look next.

    Args:
        summary: content of summary.json.
        directory: the result directory, as the user named it.
        out: the console to print to.
    """
    with out.capture() as captured:
        _print(summary, directory, out)
    # Rich would end the program if the reader of a pipe has gone. So write the text without Rich
    out.file.write(captured.get())


def _print(summary: dict[str, Any], directory: str, out: Console) -> None:
    width = out.width
    blocks = {
        "head": _head(summary, width),
        "bounds": _bounds(summary, width),
        "operators": _operators(summary, width),
        "advice": _advice(summary, width),
        "next": _next(summary, directory, width),
    }
    there = {name: lines for name, lines in blocks.items() if lines}
    blanks = len(there) - 1
    for name, most in _SHORTER:
        if sum(map(len, there.values())) > LINES and name in there:
            there[name] = _cut(there[name], most, width)
    room = LINES - sum(map(len, there.values()))
    for number, lines in enumerate(there.values()):
        # if the screen has lines left, put blank lines between the blocks, from the first block on
        if 0 < number <= min(room, blanks):
            out.print()
        for line in lines:
            out.print(line, soft_wrap=True)


def _cut(lines: list[Text], most: int, width: int) -> list[Text]:
    if len(lines) <= most:
        return lines
    last = lines[most - 1].copy()
    last.truncate(width - 2)
    return [*lines[: most - 1], Text.assemble(last, " …")]


def _wrapped(text: str, width: int, style: str = "", indent: str = "") -> list[Text]:
    lines = textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [Text(line, style=style) for line in lines]


def _head(summary: dict[str, Any], width: int) -> list[Text]:
    run = "; ".join([terminal.run_line(summary).plain, *stepping.endings(summary)])
    lines = _wrapped(summary["verdict"], width, "bold")
    for line in changes.long(summary):
        lines += _wrapped(line, width, "bold")
    lines += _wrapped(run, width, "dim")
    for line in (_steps(summary), *stepping.others(summary)):
        lines += _wrapped(line, width)
    if held := summary.get("memory"):
        most = f"at most {held['peak_mb']:,.2f} MiB by {held['component']}"
        owners = [] if held["at_peak"] is None else remarks.peak(held)[:1]
        texts = owners if owners and remarks.at_most(held) else [most, *owners]
        lines += _wrapped(f"Memory of tensors: {'; '.join(texts)}", width)
    for text in terminal.utilization(summary.get("utilization")):
        lines += _wrapped(text, width)
    for line in (*changes.lines(summary), *remarks.head(summary)):
        lines += _wrapped(line, width)
    lost = [text for key, text in _LOST.items() if summary["completeness"].get(key)]
    return lines + (_wrapped(f"Not complete: {', '.join(lost)}", width, "bold red") if lost else [])


def _steps(summary: dict[str, Any]) -> str:
    steps = summary["steps"]
    if not steps["count"] or not stepping.counted(summary):
        return "No step was recorded." if not steps["count"] else f"{steps['why']}."
    sampled = f", {steps['recorded']} sampled" if summary.get("sampling") else ""
    slowest = ", ".join(f"{item['number']} ({_ms(item['ms'])})" for item in steps["slowest"][:2])
    steady = steps["steady"]
    cycle = f" ({steps_line.source(steps)})" * bool(steps["cycle"])
    return (
        f"{steps['count']} steps{stepping.whose(summary)}{cycle}{sampled}: {remarks.typical(summary)}, "
        f"first {_ms(steps['first_ms'])}; slowest: {slowest}{_on_device(summary, steady['median_ms'])}"
    )


def _on_device(summary: dict[str, Any], host_ms: float) -> str:
    """Return words about the median step on the device, if the host runs ahead of the device."""
    time = terminal.device_time(summary)
    if time is None or not time["steps"]:
        return ""
    median = statistics.median(step["length_ms"] for step in time["steps"])
    if abs(median - host_ms) < _DIFFERS * host_ms:
        return ""
    return f". On the device a step takes {_ms(median)}; the host runs ahead"


def _bounds(summary: dict[str, Any], width: int) -> list[Text]:
    """Return a bar and words that show what bounds a step. If the bounds are unknown, show the phases of a step."""
    if stepping.unknown(summary):
        return []
    found = summary.get("bounds")
    title = "What bounds a step"
    shares = (found or {}).get("shares") or {}
    if not shares:
        title = "Phases of a step"
        shares = {name: phase["steady_share"] for name, phase in summary["phases"].items()}
    shown = sorted(((share, name) for name, share in shares.items() if share and share >= _LEAST), reverse=True)
    if not shown:
        return []
    bar, cells = Text(f"{title}  ", style="bold"), min(_BAR, width - len(title) - 2)
    for number, (share, name) in enumerate(shown):
        # different shades distinguish the parts on a terminal without colours
        bar.append(_SHADES[number % len(_SHADES)] * round(share * cells), style=COLOURS.get(name, "cyan"))
    words = ", ".join(f"{PARTS.get(name) or name} {share * 100:.1f} %" for share, name in shown)
    queued = (summary.get("machine") or {}).get("queued_share", 0.0)
    if queued >= _CROWDED and queued >= 2 * shares.get("runnable", 0.0):
        words += f"; the stepping thread waited for a processor for {queued * 100:.1f} %, also while it computed"
    return [bar, *_wrapped(f"  {words}", width, indent="  ")]


def _operators(summary: dict[str, Any], width: int) -> list[Text]:
    where = "" if summary["kernels"] else stepping.everywhere(summary)
    title = f"{remarks.listed(summary)}{where}"
    table = terminal.names(summary["top_operators"][:_ROWS], title, "  ", _UNSURE)
    if table is None:
        return []
    plain = Terminal(width=width, highlight=False, color_system=None)
    with plain.capture() as captured:
        plain.print(widths.fitted(table, width))
    head, *others = captured.get().splitlines()
    return [Text(head.rstrip(), style="bold"), *(Text(line.rstrip()) for line in others[: _ROWS + 1])]


def _advice(summary: dict[str, Any], width: int) -> list[Text]:
    if not summary["advice"]:
        return []
    first = summary["advice"][0]
    more = f" ({len(summary['advice']) - 1} more with --all)" if len(summary["advice"]) > 1 else ""
    lines = _wrapped(f"Advice: {first['what']}: {first['evidence']}{more}", width, "bold", "  ")
    return [*lines, *_wrapped(f"  {first['action']}", width, indent="  ")]


def _next(summary: dict[str, Any], directory: str, width: int) -> list[Text]:
    lacking = len(summary["not_collected"]) + len(remarks.gaps(summary))
    missing = f" ({lacking} {'thing is' if lacking == 1 else 'things are'} missing)" if lacking else ""
    lines = _wrapped(f"Next: ms-profiler summary --all DIR{missing}, ms-profiler view DIR; DIR is", width, indent="  ")
    return [*lines, Text(f"  {directory}")]
