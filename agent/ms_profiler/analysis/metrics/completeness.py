"""Count the records that were read, and those that were refused, damaged or lost."""

from typing import Any

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.store.format import CATEGORY_FINE


def completeness(recording: tables.Recording, lost: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the number of records, and the number of missing records for each reason.

    Args:
        recording: the run.
        lost: the time windows whose kernels or dataset pipelines could not be read.
    """
    counts, processes = recording.counts, recording.processes
    return {
        "records": int(processes["records"].sum()),
        "dropped": int(processes["dropped"].sum()),
        "dropped_limit": int(processes["dropped_limit"].sum()),
        "torn": counts.torn,
        "cut": counts.cut,
        "unknown": counts.unknown,
        "backwards": counts.backwards,
        "impossible": counts.impossible,
        "missing_records": sum(lost.records for lost in counts.missing),
        "missing_strings": counts.missing_strings,
        "empty_files": counts.empty_files,
        "damaged_kernels": counts.damaged_kernels,
        "damaged_memory": counts.damaged_memory,
        "damaged_events": counts.damaged_events,
        "unfinished_spans": int(recording.spans["unfinished"].sum()),
        "lost_windows": [*lost_windows(recording), *_lost_files(recording), *lost],
        "damaged_files": [{"file": name, "reason": reason} for name, reason in counts.damaged_files],
    }


def lost_windows(recording: tables.Recording) -> list[dict[str, Any]]:
    """Return for each process the time in which it refused fine-grained records, because max_disk was reached.

    Times are in seconds since the first record. The recorder counts refused records, but does not write their times.
    So the returned interval lasts from the last fine-grained record of a process to its last record of any kind.

    Args:
        recording: the run.
    """
    fine = (
        recording.spans.filter(pl.col("category") >= CATEGORY_FINE)
        .group_by("process")
        .agg(pl.col("end_ns").max().alias("from_ns"))
    )
    limited = recording.processes.filter(pl.col("dropped_limit") > 0).join(fine, on="process", how="left")
    start = min(recording.processes["first_ns"].to_list())
    return [
        {
            "pid": row["process"],
            "what": "fine-grained records (modules and operators), refused because of max_disk",
            "from_s": round(((row["from_ns"] or row["first_ns"]) - start) / 1e9, 6),
            "to_s": round((row["last_ns"] - start) / 1e9, 6),
            "records": row["dropped_limit"],
        }
        for row in limited.iter_rows(named=True)
    ]


def _lost_files(recording: tables.Recording) -> list[dict[str, Any]]:
    """Return for each process the time in which records may lie that the process wrote and that no file has."""
    start = min(recording.processes["first_ns"].to_list())
    rows = {row["process"]: row for row in recording.processes.iter_rows(named=True)}
    found = []
    for lost in recording.counts.missing:
        first, last = rows[lost.pid]["first_ns"], rows[lost.pid]["last_ns"]
        begin = max(recording.clock.epoch_ns(lost.first_ns), first) if lost.first_ns else first
        end = min(recording.clock.epoch_ns(lost.last_ns), last) if lost.last_ns else last
        found.append(
            {
                "pid": lost.pid,
                "what": lost.describe(),
                "from_s": round((min(begin, end) - start) / 1e9, 6),
                "to_s": round((end - start) / 1e9, 6),
                "records": lost.records,
            }
        )
    return found
