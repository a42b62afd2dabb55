"""communication.json: every exchange with other ranks whose bytes are known, by step.

Keys are those of MindSpore's public profiler documents. Which part of a call was waiting for other ranks is not known,
so that all of it counts as transit. Bytes of processors go through sockets; the links of devices are there with 0,
because readers add them up.
"""

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

from ms_profiler.analysis.measures import Measures
from ms_profiler.store import layout

#: how bytes get from one processor to another
TRANSPORT: Final = "TCP"
#: the entry that adds up the others
TOTAL: Final = "Total Op Info"

_LINKS: Final = ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")
_POINT_TO_POINT: Final = ("send", "receive", "recv")


def path(measures: Measures) -> str:
    """Return where it goes."""
    return os.path.join(layout.OUTPUT, layout.COMMUNICATION)


def applies(measures: Measures) -> bool:
    """Tell whether there was such an exchange in a step."""
    return not measures.calls.is_empty()


def write(measures: Measures, stream: BinaryIO, *, pretty: bool) -> None:
    """Write the file."""
    steps: dict[str, dict[str, dict[str, Any]]] = {}
    for call in by_call(measures):
        kinds = steps.setdefault(call["step"], {"p2p": {}, "collective": {}})
        kinds[call["kind"]][call["name"]] = {
            "Communication Time Info": {"Start Timestamp(us)": call["start_us"], **_times(call["ms"])},
            "Communication Bandwidth Info": _bandwidths([call]),
        }
    for kinds in steps.values():
        for kind in kinds.values():
            _add_total(kind)
    stream.write(json.dumps(steps, indent=4 if pretty else None).encode() + b"\n")


def by_call(measures: Measures) -> Iterator[dict[str, Any]]:
    """Yield the calls: `step` and `name` as the files have them, `kind`, `operation`, `group`, sizes."""
    table = measures.steps.table["number"]
    for row in measures.calls.iter_rows(named=True):
        operation, group = row["operation"], row["group"]
        exchange = any(word in operation.lower() for word in _POINT_TO_POINT)
        # the number of a group in names has three digits, and is the same on all ranks
        name = f"hcom_{operation[:1].lower()}{operation[1:]}__{zlib.crc32(group.encode()) % 1000:03d}_{row['number']}_1"
        yield {
            "step": f"step{table[row['step']]}",
            "name": f"{name}@{group}",
            "kind": "p2p" if exchange else "collective",
            "operation": operation,
            "group": group,
            "start_us": row["start_ns"] / 1000,
            "ms": (row["end_ns"] - row["start_ns"]) / 1e6,
            "mb": row["bytes"] / 1e6,
        }


def added(numbers: Iterable[float]) -> float:
    """Return the sum of megabytes or milliseconds: exact, since bytes and nanoseconds are millionths of them."""
    return round(sum(numbers), 6)


def bandwidth(megabytes: float, milliseconds: float) -> float:
    """Return gigabytes a second, 0 for no time."""
    return round(megabytes / milliseconds, 4) if milliseconds else 0.0


def _times(milliseconds: float) -> dict[str, float]:
    return {
        "Elapse Time(ms)": milliseconds,
        "Transit Time(ms)": milliseconds,
        "Wait Time(ms)": 0.0,
        "Synchronization Time(ms)": 0.0,
        "Idle Time(ms)": 0.0,
        "Wait Time Ratio": 0.0,
        "Synchronization Time Ratio": 0.0,
    }


def _bandwidths(calls: list[dict[str, Any]]) -> dict[str, Any]:
    sizes: dict[str, list[float]] = {}
    for call in calls:
        entry = sizes.setdefault(str(call["mb"]), [0, 0.0])
        entry[0] += 1
        entry[1] = added((entry[1], call["ms"]))
    links = {link: _link(0, 0, {}) for link in _LINKS}
    links[TRANSPORT] = _link(added(call["mb"] for call in calls), added(call["ms"] for call in calls), sizes)
    return links


def _link(megabytes: float, milliseconds: float, sizes: dict[str, list[float]]) -> dict[str, Any]:
    return {
        "Transit Size(MB)": megabytes,
        "Transit Time(ms)": milliseconds,
        "Bandwidth(GB/s)": bandwidth(megabytes, milliseconds),
        "Large Packet Ratio": 0,
        "Size Distribution": sizes,
    }


def _add_total(kind: dict[str, Any]) -> None:
    """Add the sum of all entries, unless there is none."""
    if not kind:
        return
    calls = []
    for entry in kind.values():
        link = entry["Communication Bandwidth Info"][TRANSPORT]
        calls.append({"mb": link["Transit Size(MB)"], "ms": link["Transit Time(ms)"]})
    kind[TOTAL] = {
        "Communication Time Info": _times(added(call["ms"] for call in calls)),
        "Communication Bandwidth Info": _bandwidths(calls),
    }
