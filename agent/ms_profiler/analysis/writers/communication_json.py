"""communication.json: every exchange with other ranks that has a known size, by step.

Keys are those of MindSpore's public profiler documents. ms-profiler's own recordings do not separate the wait for
other ranks from the transfer, so the whole call counts as transit time. All bytes of a recorded call count for the link
TCP. Tools that read the file add up all links, so it lists the links of devices, too, with 0 bytes. For results of
other tools, `metrics.transfers` measures the links.
"""

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

from ms_profiler.analysis.metrics import group_numbers, transfers
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.store import layout

#: link over which CPUs exchange bytes
TRANSPORT: Final = "TCP"
#: name of the entry that adds up the other entries
TOTAL: Final = "Total Op Info"
#: names of the two parts of an entry
TIME: Final = "Communication Time Info"
BANDWIDTH: Final = "Communication Bandwidth Info"
P2P: Final = "p2p"
COLLECTIVE: Final = "collective"

_LINKS: Final = ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")
#: the link `_SUM` is no real link: its numbers are the sums over the links `_SUMMANDS`, which connect chips of a host
_SUM: Final = "SDMA"
_SUMMANDS: Final = ("HCCS", "PCIE", "SIO")
_POINT_TO_POINT: Final = ("send", "receive", "recv")
#: link -> packet size in bytes -> (number of packets, time in nanoseconds)
_Packets = dict[str, dict[int, tuple[int, int]]]


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.COMMUNICATION)


def applies(measures: Measures) -> bool:
    """Return whether there was an exchange with known bytes in a step."""
    device = measures.recording.device if measures.recording.foreign else None
    return not measures.calls.is_empty() and (device is None or not transfers.known(device.transfers).is_empty())


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the file."""
    stream.write(json.dumps(content(measures), indent=4 if measures.request.pretty else None).encode() + b"\n")


def content(measures: Measures) -> dict[str, Any]:
    """Return the content of the file."""
    steps: dict[str, dict[str, dict[str, Any]]] = {}
    entries = _of_device(measures) if measures.recording.foreign else _of_calls(measures)
    for call, times, packets in entries:
        kinds = steps.setdefault(call["step"], {P2P: {}, COLLECTIVE: {}})
        start = {"Start Timestamp(us)": call["start_ns"] / 1000}
        kinds[call["kind"]][call["name"]] = {TIME: {**start, **times}, BANDWIDTH: _bandwidths(packets)}
    for kinds in steps.values():
        for kind in kinds.values():
            _add_total(kind)
    return steps


def by_call(measures: Measures) -> Iterator[dict[str, Any]]:
    """Yield a dict for each exchange with other ranks.

    `step` and `name` are the texts of communication.json, `ms` is the duration, `mb` the size in megabytes.
    """
    numbers = measures.steps.table["number"]
    ours = not measures.recording.foreign
    for row in measures.calls.iter_rows(named=True):
        operation, group = row["operation"], row["group"]
        exchange = any(word in operation.lower() for word in _POINT_TO_POINT)
        # three digits of the name stand for the group: all ranks of the group compute the same digits
        name = f"hcom_{operation[:1].lower()}{operation[1:]}__{zlib.crc32(group.encode()) % 1000:03d}_{row['number']}_1"
        yield {
            "step": f"step{numbers[row['step']]}",
            "name": f"{name}@{group}" if ours else f"{operation}@{group_numbers.number(group)}",
            "kind": P2P if exchange else COLLECTIVE,
            "operation": operation if ours else operation.partition("__")[0].removeprefix("hcom_").rstrip("_"),
            "group": group,
            "start_ns": row["start_ns"],
            "end_ns": row["end_ns"],
            "ms": (row["end_ns"] - row["start_ns"]) / 1e6,
            "mb": row["bytes"] / 1e6,
            "peer": row["peer"],
        }


def added(numbers: Iterable[float]) -> float:
    """Return the exact sum of megabytes or milliseconds. Six decimals are enough for each byte or nanosecond."""
    return round(sum(numbers), 6)


def bandwidth(megabytes: float, milliseconds: float) -> float:
    """Return the bandwidth in gigabytes a second; 0 if the time is 0."""
    return round(megabytes / milliseconds, 4) if milliseconds else 0.0


def _of_calls(measures: Measures) -> Iterator[tuple[dict[str, Any], dict[str, float], _Packets]]:
    """Yield each call of ms-profiler's own recording with its times and packets."""
    for call in by_call(measures):
        length = call["end_ns"] - call["start_ns"]
        packets = {**{link: {} for link in _LINKS}, TRANSPORT: {round(call["mb"] * 1e6): (1, length)}}
        yield call, _times(call["ms"], call["ms"], 0.0, 0.0), packets


def _of_device(measures: Measures) -> Iterator[tuple[dict[str, Any], dict[str, float], _Packets]]:
    """Yield each exchange of a device whose transfers are known, with its times and packets."""
    assert measures.recording.device is not None
    parts = transfers.known(measures.recording.device.transfers)
    measured = {(row[0], row[1]): row[2:] for row in transfers.times(parts).iter_rows()}
    packets: dict[tuple[str, int], _Packets] = {}
    for group, start, link, size, count, length in transfers.packets(parts).iter_rows():
        own = packets.setdefault((group, start), {link: {} for link in _LINKS})
        if link in own:
            own[link][size] = count, length
    for call in by_call(measures):
        key = call["group"], call["start_ns"]
        if key in measured:
            transit, wait, synchronization = (value / 1e6 for value in measured[key])
            times = _times(call["ms"], transit, wait, synchronization)
            yield call, times, packets.get(key, {link: {} for link in _LINKS})


def _times(elapse: float, transit: float, wait: float, synchronization: float) -> dict[str, float]:
    """Return the times of an entry in milliseconds. The ratio of a waiting time is: time / (time + transit)."""
    return {
        "Elapse Time(ms)": elapse,
        "Transit Time(ms)": transit,
        "Wait Time(ms)": wait,
        "Synchronization Time(ms)": synchronization,
        "Idle Time(ms)": round(elapse - transit - wait, 6),
        "Wait Time Ratio": _share(wait, transit),
        "Synchronization Time Ratio": _share(synchronization, transit),
    }


def _share(waiting: float, transit: float) -> float:
    return round(waiting / (waiting + transit), 4) if waiting + transit else 0.0


def _bandwidths(packets: _Packets) -> dict[str, Any]:
    found = {link: _link(sizes) for link, sizes in packets.items()}
    summands = [found[link] for link in _SUMMANDS]
    size, time = (added(link[key] for link in summands) for key in ("Transit Size(MB)", "Transit Time(ms)"))
    if size:
        found[_SUM] |= {"Transit Size(MB)": size, "Transit Time(ms)": time, "Bandwidth(GB/s)": bandwidth(size, time)}
    return found


def _link(sizes: dict[int, tuple[int, int]]) -> dict[str, Any]:
    megabytes = sum(size * count for size, (count, _) in sizes.items()) / 1e6
    milliseconds = sum(length for _, length in sizes.values()) / 1e6
    number = sum(count for count, _ in sizes.values())
    large = sum(count for size, (count, _) in sizes.items() if size > transfers.LARGE_MB * 1e6)
    return {
        "Transit Size(MB)": megabytes if sizes else 0,
        "Transit Time(ms)": milliseconds if sizes else 0,
        "Bandwidth(GB/s)": bandwidth(megabytes, milliseconds),
        "Large Packet Ratio": round(large / number, 4) if large else 0,
        "Size Distribution": {str(size / 1e6): [count, length / 1e6] for size, (count, length) in sizes.items()},
    }


def _add_total(kind: dict[str, Any]) -> None:
    """Add the entry `TOTAL`, the sum of all entries of a kind, if there is any entry."""
    if not kind:
        return
    times = [entry[TIME] for entry in kind.values()]
    keys = ("Elapse Time(ms)", "Transit Time(ms)", "Wait Time(ms)", "Synchronization Time(ms)")
    packets: _Packets = {}
    for entry in kind.values():
        for link, values in entry[BANDWIDTH].items():
            sizes = packets.setdefault(link, {})
            for size, (count, milliseconds) in values["Size Distribution"].items():
                number = round(float(size) * 1e6)
                before = sizes.get(number, (0, 0))
                sizes[number] = before[0] + count, before[1] + round(milliseconds * 1e6)
    kind[TOTAL] = {TIME: _times(*(added(each[key] for each in times) for key in keys)), BANDWIDTH: _bandwidths(packets)}
