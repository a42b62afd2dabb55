"""Find the Python functions that run in each part of a step, from samples or from traced calls."""

from typing import Any, Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import bounds, host_spans
from ms_profiler.analysis.metrics.stack_samples import Stacks
from ms_profiler.analysis.metrics.stack_tree import Function
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.metrics.traced_calls import Calls

#: parts that are shown as `bounds.HOST`. In these parts, the thread is off its processor. Samples tell for how long it
#: is off, but not when
_ASIDE: Final = (bounds.BLOCKED, bounds.RUNNABLE, bounds.UNKNOWN)
#: largest number of functions that advice names, and the smallest share of the part that a named function takes
_NAMED: Final = 2
_SHARE: Final = 0.1
#: the function of other threads is named if more than this share of their samples shows it
_MOST: Final = 0.5
#: Modules of Python in which threads wait. A thread in one of their functions is idle.
_IDLE: Final = ("threading", "queue", "selectors", "socket", "ssl", "subprocess", "concurrent", "multiprocessing")


class Code(NamedTuple):
    """Texts about the Python functions and lines that run during a part of the steps; each is empty if unknown.

    Attributes:
        host: the functions that take most of `bounds.HOST` and of the parts in `_ASIDE`.
        launch: the functions that take most of `bounds.LAUNCH`.
        beside: the function that other threads of the process run while the stepping thread is asleep or blocked.
    """

    host: str = ""
    launch: str = ""
    beside: str = ""


def of_samples(stacks: Stacks, used: Steps, pieces: pl.DataFrame, of: str) -> list[dict[str, Any]]:
    """Return the functions that the stepping thread's samples show in each part of the steps, the largest part first.

    Args:
        stacks: the sampled Python stacks of the run.
        used: the steps of the run.
        pieces: intervals that do not overlap, with a column that names the part of a step.
        of: the name of this column; the parts in `_ASIDE` count as `bounds.HOST`.
    """
    return stacks.consists_of(stacks.of_recorded(used.process, used.thread), _together(pieces, of), of)


def of_calls(calls: Calls, used: Steps, pieces: pl.DataFrame, of: str) -> list[dict[str, Any]]:
    """Return the functions that traced calls show in each part of the steps, in the form of `of_samples`.

    Args:
        calls: the traced calls of the run.
        used: the steps of the run.
        pieces: intervals that do not overlap, with a column that names the part of a step.
        of: the name of this column.
    """
    return calls.consists_of(calls.of_thread(used.process, used.thread), _together(pieces, of), of)


def _together(pieces: pl.DataFrame, of: str) -> pl.DataFrame:
    return pieces.with_columns(pl.col(of).replace(dict.fromkeys(_ASIDE, bounds.HOST))).sort("start_ns")


def words(stacks: Stacks, used: Steps, pieces: pl.DataFrame) -> Code:
    """Return texts about the functions and lines that run during parts of the steps.

    Args:
        stacks: the Python stacks of the run.
        used: the steps of the run.
        pieces: the steps cut into parts, from `Diagnosis.pieces`.
    """
    if stacks.known:
        parts = of_samples(stacks, used, pieces, "part")
    elif stacks.calls.known:
        parts = of_calls(stacks.calls, used, pieces, "part")
    else:
        return Code(host_spans.longest(stacks.recording, used, pieces) if stacks.recording.foreign else "")
    rows = {part["name"]: [row for row in part["rows"] if row["share"] >= _SHARE] for part in parts}
    host, launch = (rows.get(name, [])[:_NAMED] for name in (bounds.HOST, bounds.LAUNCH))
    return Code(" and ".join(map(_words, host)), " and ".join(map(_words, launch)), _beside(stacks, used, pieces))


def _beside(stacks: Stacks, used: Steps, pieces: pl.DataFrame) -> str:
    """Return text about the function that other threads run while the stepping thread is blocked; empty if unknown.

    Samples of idle threads do not count. A function is named if more than half of the other samples show it. A sample
    does not tell whether a function of the script sleeps, so the text says that it comes from samples.
    """
    if not stacks.known:
        return ""
    own = stacks.of_recorded(used.process, used.thread)
    others = stacks.moments.filter(pl.col("process") == used.process, ~pl.col("node").is_in(own["node"].implode()))
    tree = stacks.trees.get(used.process)
    busy = [node for node, place in tree.places.items() if _busy(tree.functions[place])] if tree else []
    found = stacks.consists_of(
        others.filter(pl.col("node").is_in(busy)), pieces.filter(part=bounds.BLOCKED).sort("start_ns"), "part"
    )
    first = next((row for part in found for row in part["rows"]), None)
    return f"; their samples show mostly {_words(first)}" if first is not None and first["share"] > _MOST else ""


def _busy(function: Function) -> bool:
    """Return whether a thread whose innermost function is this one is not idle."""
    folders = function.file.replace("\\", "/").removesuffix(".py").split("/")
    return bool(function.file) and (function.own or not any(part in _IDLE for part in folders))


def _words(row: dict[str, Any]) -> str:
    caller = row["called_from"]
    around = "" if caller is None else f", called from {_place(caller)}"
    return f"{_place(row)}{around} ({row['share'] * 100:.0f} %)"


def _place(row: dict[str, Any]) -> str:
    return f"{row['function']} at {row['file']}:{lines(row)}" if row["file"] else str(row["function"])


def lines(row: dict[str, Any]) -> str:
    """Return the lines of a function in the summary as text, the most sampled one first.

    Args:
        row: a row of a part, from `of_samples` or `of_calls`, or its `called_from`.
    """
    return ", ".join(map(str, (row["line"], *row.get("other_lines", ()))))
