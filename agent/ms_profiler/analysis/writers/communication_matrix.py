"""communication_matrix.json: what each kind of exchange moved between ranks, by step.

Keys are those of MindSpore's public profiler documents: of the calls of one operation in one group the fastest, the
middle one, the slowest three, and the sum. Which ranks a call reached is not known on a processor, so that the only
link is that of this rank with itself.
"""

import json
import os
from typing import Any, BinaryIO, Final

from ms_profiler.analysis.measures import Measures
from ms_profiler.analysis.metrics.communication import ranks
from ms_profiler.analysis.writers import communication
from ms_profiler.store import layout

#: by operation and group
_Calls = dict[tuple[str, str], list[dict[str, Any]]]
#: a link of a rank with itself
_LOCAL: Final = "LOCAL"


def path(measures: Measures) -> str:
    """Return where it goes."""
    return os.path.join(layout.OUTPUT, layout.COMMUNICATION_MATRIX)


def applies(measures: Measures) -> bool:
    """Tell whether there was an exchange in a step whose bytes are known."""
    return communication.applies(measures)


def write(measures: Measures, stream: BinaryIO, *, pretty: bool) -> None:
    """Write the file."""
    recording = measures.recording
    groups = ranks(recording.instants, recording.names)
    steps: dict[str, dict[str, _Calls]] = {}
    for call in communication.by_call(measures):
        kinds = steps.setdefault(call["step"], {"p2p": {}, "collective": {}})
        kinds[call["kind"]].setdefault((call["operation"].lower(), call["group"]), []).append(call)
    content = {
        step: {kind: _links(calls, groups, recording.info.rank) for kind, calls in kinds.items()}
        for step, kinds in steps.items()
    }
    stream.write(json.dumps(content, indent=4 if pretty else None).encode() + b"\n")


def _links(calls: _Calls, groups: dict[str, list[int]], rank: int) -> dict[str, Any]:
    found = {}
    for (operation, group), alike in calls.items():
        members = groups.get(group, [])
        # readers count ranks within the group
        place = members.index(rank) if rank in members else rank
        link = f"{place}-{place}"
        ranked = sorted(
            alike, key=lambda call: (-communication.bandwidth(call["mb"], call["ms"]), call["start_us"], call["name"])
        )
        chosen = {
            "top1": ranked[0],
            "middle": ranked[len(ranked) // 2],
            "bottom1": ranked[-1],
            "bottom2": ranked[-min(2, len(ranked))],
            "bottom3": ranked[-min(3, len(ranked))],
        }
        for which, call in chosen.items():
            found[f"{operation}-{which}@{group}"] = {
                link: {**_moved([call]), "Op Name": call["name"].partition("@")[0]}
            }
        found[f"{operation}-total@{group}"] = {link: _moved(ranked)}
    return found


def _moved(calls: list[dict[str, Any]]) -> dict[str, Any]:
    megabytes = communication.added(call["mb"] for call in calls)
    milliseconds = communication.added(call["ms"] for call in calls)
    return {
        "Transport Type": _LOCAL,
        "Transit Size(MB)": megabytes,
        "Transit Time(ms)": milliseconds,
        "Bandwidth(GB/s)": communication.bandwidth(megabytes, milliseconds),
    }
