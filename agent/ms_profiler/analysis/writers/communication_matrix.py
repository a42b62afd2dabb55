"""communication_matrix.json: bytes between ranks by kind of exchange and step.

Keys are those of MindSpore's public profiler documents. For each operation, group and link, the file has six entries.
`top1`, `middle`, `bottom3`, `bottom2` and `bottom1` are exchanges from the highest to the lowest bandwidth; `total` is
the sum of all exchanges.

A message from one rank to another counts for the link from its sender to its receiver, and only in the sender's file.
For all other calls on a CPU, the links are unknown, so the bytes count for the link of this rank with itself, for
example `2-2`. On a CPU each call has a link of the rank with itself, because readers take the position of this rank in
its group from that link.
"""

import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from ms_profiler.analysis.metrics import transfers
from ms_profiler.analysis.metrics.communication import ranks
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.writers import communication_json
from ms_profiler.store import layout

#: link -> bytes and time of each exchange over it
_Links = dict[str, list[dict[str, Any]]]
#: transport of the link of a rank with itself
_LOCAL: Final = transfers.LOCAL
_SEND: Final = "Send"


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.COMMUNICATION_MATRIX)


def applies(measures: Measures) -> bool:
    """Return whether there was an exchange with known bytes in a step."""
    return communication_json.applies(measures)


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the file."""
    stream.write(json.dumps(content(measures), indent=4 if measures.request.pretty else None).encode() + b"\n")


def content(measures: Measures) -> dict[str, Any]:
    """Return the content of the file."""
    steps: dict[str, dict[str, dict[tuple[str, str], _Links]]] = {}
    for call, link, values in by_link(measures):
        kinds = steps.setdefault(call["step"], {communication_json.P2P: {}, communication_json.COLLECTIVE: {}})
        group = call["name"].partition("@")[2]
        alike = kinds[call["kind"]].setdefault((call["operation"].lower(), group), {})
        alike.setdefault(link, []).append({**values, "Op Name": call["name"].partition("@")[0]})
    return {step: {kind: _chosen(calls) for kind, calls in kinds.items()} for step, kinds in steps.items()}


def by_link(measures: Measures) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """Yield (exchange of `communication_json.by_call`, link, values) for each link of each exchange.

    A link is text: `0-1` is the link from rank 0 to rank 1. Its values are transport, size, time and bandwidth.
    """
    recording = measures.recording
    if recording.foreign and recording.device is not None:
        links: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
        for group, start, *link in transfers.links(transfers.known(recording.device.transfers)).iter_rows():
            links.setdefault((group, start), []).append(tuple(link))
        for call in communication_json.by_call(measures):
            for source, target, transport, size, length in links.get((call["group"], call["start_ns"]), []):
                yield call, f"{source}-{target}", _moved(transport, size / 1e6, length / 1e6)
        return
    groups = ranks(recording.instants, recording.names)
    for call in communication_json.by_call(measures):
        members = groups.get(call["group"], [])
        # tools that read the file expect the position of the rank in its group
        place = members.index(recording.info.rank) if recording.info.rank in members else recording.info.rank
        told = call["peer"] in members and call["kind"] == communication_json.P2P
        moved = (0.0, 0.0) if told else (call["mb"], call["ms"])
        yield call, f"{place}-{place}", _moved(_LOCAL, *moved)
        if told and call["operation"] == _SEND:
            ends = f"{place}-{members.index(call['peer'])}"
            yield call, ends, _moved(communication_json.TRANSPORT, call["mb"], call["ms"])


def _chosen(calls: dict[tuple[str, str], _Links]) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {}
    for (operation, group), links in calls.items():
        for link, alike in links.items():
            # the sort is stable: of exchanges with equal bandwidths, the earlier one comes first
            ranked = sorted(alike, key=lambda moved: -moved["Bandwidth(GB/s)"])
            chosen = {
                "top1": ranked[0],
                "middle": ranked[len(ranked) // 2],
                "bottom1": ranked[-1],
                "bottom2": ranked[-min(2, len(ranked))],
                "bottom3": ranked[-min(3, len(ranked))],
                "total": _moved(
                    ranked[0]["Transport Type"],
                    communication_json.added(moved["Transit Size(MB)"] for moved in ranked),
                    communication_json.added(moved["Transit Time(ms)"] for moved in ranked),
                ),
            }
            for which, moved in chosen.items():
                found.setdefault(f"{operation}-{which}@{group}", {})[link] = moved
    return found


def _moved(transport: str, megabytes: float, milliseconds: float) -> dict[str, Any]:
    return {
        "Transport Type": transport,
        "Transit Size(MB)": megabytes,
        "Transit Time(ms)": milliseconds,
        "Bandwidth(GB/s)": communication_json.bandwidth(megabytes, milliseconds),
    }
