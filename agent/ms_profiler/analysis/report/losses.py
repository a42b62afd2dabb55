"""The largest cause of lost time that the verdict does not name, for the job's last line."""

from collections.abc import Iterator
from typing import Any, Final

from ms_profiler.analysis.metrics import bounds
from ms_profiler.analysis.report import changes

#: a cause is named if it takes at least this share of the time of the steps
_LEAST: Final = 0.1
#: cause of an advice that is lost time whatever the job computes -> the part or phase of the steps that it takes
_LOST: Final = {
    "recompiling": bounds.COMPILE,
    "gc-pauses": bounds.GARBAGE,
    "input-bound": bounds.DATA,
    "checkpointing": bounds.CHECKPOINT,
    "host-waits": bounds.BLOCKED,
    "late-rank": bounds.COMMUNICATION,
    "communication-bound": bounds.COMMUNICATION,
    "worker-starts": "workers",
    "anomaly-detection": "anomaly detection",
}


def largest(summary: dict[str, Any]) -> list[str]:
    """Return a line about the largest loss of time that is not the part of the steps which the verdict names.

    Args:
        summary: content of summary.json; may be empty.
    """
    told = summary.get("finding", {}).get("kind", "")
    # a verdict such as "dominated by forward" says nothing about some long forward passes
    told = told if told in _LOST.values() else None
    found = [(share, line) for share, part, line in _known(summary) if share >= _LEAST and part != told]
    return [max(found)[1]] if found else []


def _known(summary: dict[str, Any]) -> Iterator[tuple[float, str, str]]:
    """Yield the share of each loss of time in that of the steps, the part or phase that it takes, and a line."""
    advised = set()
    for item in summary.get("advice", ()):
        if part := _LOST.get(item["cause"]):
            advised.add(part)
            evidence = item["evidence"]
            yield item["share"], part, f"{evidence[:1].upper()}{evidence[1:]}"
    if (found := summary.get("long_steps")) and (lines := changes.long(summary)):
        part = bounds.GARBAGE if found["collecting_ms"] >= found["total_ms"] / 2 else next(iter(found["contains_ms"]))
        if part not in advised:
            yield found["share"], part, lines[0]
    # an advice about the same phase says more, such as the reason why it compiles
    if (found := summary.get("recurring_steps")) and found["phase"] not in advised:
        yield found["share"], found["phase"] or "", changes.recurring(found)
    if (found := summary.get("slow_period")) and found.get("phase") not in advised:
        more = 1 - found["others_ms"] / max(found["ms"], found["others_ms"], 1e-9)
        yield found["share"] * more, found.get("phase") or "", changes.period(found)
