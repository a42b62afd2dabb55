"""Read the account (the figures) of a rank from the small files of a result on Ascend, without reading its timeline.

communication.json has the begin and duration of each exchange. step_trace_time.csv has the parts of each step.
"""

import csv
import os
import re
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.cluster import exchanged, parallel_groups, rank_account, vendor_ranks
from ms_profiler.analysis.cluster.rank_account import RankAccount
from ms_profiler.analysis.cluster.vendor_communication import group_of
from ms_profiler.analysis.metrics import communication
from ms_profiler.errors import StoreError
from ms_profiler.store import layout

_RANK: Final = re.compile(r"profiler_info_(\d+)\.json")
_STEP: Final = re.compile(r"step(\d+)")
#: column of step_trace_time.csv -> ms-profiler's name of the part
_PARTS: Final = {"Computing": "computing", "Free": "free"}
_HIDDEN: Final = "Communication(Not Overlapped)"
_BUBBLE: Final = "Bubble"


def account(path: str) -> RankAccount:
    """Return the account of a rank, which has the figures that the comparison of ranks needs.

    Args:
        path: the path of its result.

    Raises:
        StoreError: the result has neither readable steps nor readable exchanges.
    """
    remarks: list[str] = []
    folder = layout.output_dir(path)
    content = vendor_ranks.content(os.path.join(folder, layout.COMMUNICATION), remarks)
    metadata = vendor_ranks.content(os.path.join(path, layout.METADATA), remarks)
    exchanges = _exchanges(content)
    rows = _rows(os.path.join(folder, layout.STEP_TRACE_TIME))
    if exchanges.is_empty() and not rows:
        raise StoreError(remarks[0] if remarks else f"{path} holds neither steps nor exchanges that can be read.")
    first, last = exchanges["start_ns"].min(), exchanges["end_ns"].max()
    groups, purposes = _groups(metadata), _purposes(metadata)
    piped = bool(parallel_groups.of_kind(groups, purposes, parallel_groups.PIPELINE))
    return RankAccount(
        directory=path,
        rank=_rank(path),
        world_size=_size(metadata),
        host="",
        boot="",
        started_ns=first if isinstance(first, int) else 0,
        ended_ns=last if isinstance(last, int) else 0,
        end="",
        verdict="",
        uncertainty_ns=None,
        groups=groups,
        purposes=purposes,
        steps=_steps(rows, exchanges, piped),
        parts=_parts(rows),
        exchanges=exchanges,
    )


def _rank(path: str) -> int:
    names = [match for name in os.listdir(path) if (match := _RANK.fullmatch(name))]
    return int(names[0][1]) if names else 0


def _size(metadata: dict[str, Any]) -> int:
    """Return the number of ranks of the job; 1 if the metadata do not tell it."""
    for key in ("ms_profiler", "distributed_args"):
        facts = metadata.get(key)
        if isinstance(facts, dict) and str(facts.get("world_size")).isdecimal():
            return int(facts["world_size"])
    return 1


def _groups(metadata: dict[str, Any]) -> dict[str, list[int]]:
    known = _group_facts(metadata).items()
    return {name: list(group["global_ranks"]) for name, group in known if group.get("global_ranks")}


def _purposes(metadata: dict[str, Any]) -> dict[str, list[str]]:
    known = _group_facts(metadata).items()
    return {name: [str(group["group_name"])] for name, group in known if group.get("group_name")}


def _group_facts(metadata: dict[str, Any]) -> dict[str, Any]:
    groups = metadata.get("parallel_group_info")
    return groups if isinstance(groups, dict) else {}


def _exchanges(content: dict[str, Any]) -> pl.DataFrame:
    rows = []
    for step, kinds in content.items():
        match = _STEP.fullmatch(step)
        for kind in kinds.values() if isinstance(kinds, dict) else ():
            for name, entry in kind.items():
                times = entry.get("Communication Time Info", {})
                if name.startswith("Total") or "Start Timestamp(us)" not in times:
                    continue
                start = round(float(times["Start Timestamp(us)"]) * 1000)
                end = start + round(float(times.get("Elapse Time(ms)", 0)) * 1_000_000)
                links = entry.get("Communication Bandwidth Info", {}).values()
                size = max((link.get("Transit Size(MB)", 0) for link in links), default=0)
                operation = communication.operation(name.partition("@")[0]).lower()
                number = int(match[1]) if match else None
                rows.append((group_of(name), operation, round(size * 1e6), start, end, number, None, None))
    return pl.DataFrame(rows, exchanged.EXCHANGES, orient="row").sort("start_ns", "end_ns")


def _rows(path: str) -> list[dict[str, float]]:
    """Return the rows of a step_trace_time.csv as numbers, without rows that have no step number."""
    found = []
    try:
        with open(path, newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                cells = {name: _number(text) for name, text in row.items() if name}
                if (cells.get("Step") is not None) and cells.get("Stage") is not None:
                    found.append({name: value for name, value in cells.items() if value is not None})
    except (OSError, ValueError, csv.Error):
        return []
    return found


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def _steps(rows: list[dict[str, float]], exchanges: pl.DataFrame, piped: bool) -> pl.DataFrame:
    """Return the steps of a rank, with the columns of `rank_account.STEPS`.

    own time = `Stage` - `Communication(Not Overlapped)`

    Args:
        rows: the rows of step_trace_time.csv.
        exchanges: the exchanges of the rank, with the columns of `exchanged.EXCHANGES`.
        piped: whether the rank is in a pipeline.
    """
    begins = dict(exchanges.group_by("step").agg(pl.col("start_ns").min()).iter_rows())
    found = []
    for row in rows:
        number, length = int(row["Step"]), round(row["Stage"] * 1000)
        start = begins.get(number, 0)
        hidden = row.get(_HIDDEN, 0)
        own = length - round(hidden * 1000)
        messages = round(min(row[_BUBBLE], hidden) * 1000) if _BUBBLE in row else None
        bubble = messages if piped else None
        exchange = round(row.get("Communication", 0) * 1000)
        known = (number, start, start + length, own if exchange else None, exchange)
        found.append((*known, *[None] * 5, bubble, messages, False))
    return pl.DataFrame(found, rank_account.STEPS, orient="row")


def _parts(rows: list[dict[str, float]]) -> pl.DataFrame:
    found = [
        (int(row["Step"]), part, round(row[column] * 1000))
        for row in rows
        for column, part in _PARTS.items()
        if row.get(column)
    ]
    return pl.DataFrame(found, rank_account.PARTS, orient="row")
