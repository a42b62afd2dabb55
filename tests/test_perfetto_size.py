"""Perfetto's own classes read the same content from one file as from the pieces of the JSON timeline.

The run has five million events.
"""

import json
import subprocess
import sys
from collections import Counter

import orjson
import pytest
from conftest import PROGRAMS, environment
from perfetto_reader import streamed
from store_builder import folder_of

COUNT = 5_000_000


def nanoseconds(text):
    whole, _, rest = text.partition(".")
    return int(whole) * 1000 + int(rest)


def drawn(paths):
    """Return counts and sums over the pieces of a JSON timeline, which do not depend on the order of events."""
    found, total = Counter(), 0
    for path in paths:
        for event in orjson.loads(path.read_bytes()):
            kind = event["ph"]
            if kind == "X" and event.get("args", {}).get("category") not in (None, "step"):
                start = nanoseconds(event["ts"])
                total += hash(
                    (event["tid"], event["name"], event["args"]["category"], start, nanoseconds(event["dur"]))
                )
                found["slices"] += 1
            elif kind in "sf":
                total += hash((kind, event["id"], event["tid"], nanoseconds(event["ts"])))
                found["flow ends"] += 1
            elif kind == "C":
                total += hash((nanoseconds(event["ts"]), float(event["args"]["value"])))
                found["counters"] += 1
    return found, total


def decoded(path):
    """Return the counts and sums of Perfetto's trace, and the depths of its slices."""
    found, total, depths = Counter(), 0, Counter()
    threads = {}
    for trace, each in streamed(path):
        if isinstance(each, tuple):
            _, time, value = each
            total += hash((time, value))
            found["counters"] += 1
            continue
        if each.category in ("step", "overlap", "owner", "part"):
            continue
        if each.track not in threads:
            track = trace.tracks[each.track]
            threads[each.track] = (track if track.HasField("thread") else trace.tracks[track.parent_uuid]).thread.tid
        tid = threads[each.track]
        total += hash((tid, each.name, each.category, each.start, each.end - each.start))
        found["slices"] += 1
        depths[each.name, each.depth] += 1
        for kind, ids in (("s", each.flows), ("f", each.ends)):
            for number in ids:
                total += hash((kind, number, tid, each.start))
                found["flow ends"] += 1
    return found, total, depths


@pytest.mark.slow
def test_five_million_events_are_the_same_in_both_forms(tmp_path):
    folder = tmp_path / "host_1_20260101000000000_ascend_ms"
    program = [sys.executable, PROGRAMS / "millions.py", folder, str(COUNT)]
    subprocess.run(program, check=True, env=environment())
    subprocess.run([sys.executable, "-m", "ms_profiler", "analyse", folder], check=True, env=environment())
    output = folder_of(folder)
    pieces = sorted([output / "trace_view.json", *output.glob("msprof_slice_*.json")])
    assert len(pieces) > 3
    trace = output / "trace.pftrace"
    assert 3 * trace.stat().st_size < sum(piece.stat().st_size for piece in pieces)
    shown, in_json = drawn(pieces)
    found, in_trace, depths = decoded(trace)
    steps = COUNT // 243
    assert found == shown
    assert found["slices"] == 243 * steps and found["counters"] == steps
    assert found["flow ends"] > 100 * steps
    assert in_trace == in_json
    # In later pieces, modules and operators have their own tracks, without the pass around them.
    first = depths["Net", 1]
    whole = {"Net": 1, "aten::linear": 2, "AddmmBackward0": 1}
    each = {"aten::linear": 60, "AddmmBackward0": 60}
    expected = Counter({("forward", 0): steps, ("backward", 0): steps})
    for number, lifted in ((first, 0), (steps - first, 1)):
        for name in ("Net", "aten::linear", "AddmmBackward0"):
            expected[name, whole[name] - lifted] += each.get(name, 1) * number
        for around in ("aten::linear", "AddmmBackward0"):
            expected["aten::addmm", whole[around] + 1 - lifted] += 60 * number
    assert 0 < first < steps and depths == expected
    # `drawn` reads each piece with orjson; Python's own module has to read one, too
    assert isinstance(json.loads(pieces[-1].read_bytes()), list)


@pytest.mark.slow
def test_every_piece_of_fifty_million_events_can_be_opened(tmp_path):
    """MindStudio Insight opens up to 100 files of a timeline, with up to 20 GiB in total."""
    count = 50_000_000
    folder = tmp_path / "host_1_20260101000000000_ascend_ms"
    subprocess.run([sys.executable, PROGRAMS / "millions.py", folder, str(count)], check=True, env=environment())
    subprocess.run([sys.executable, "-m", "ms_profiler", "analyse", folder], check=True, env=environment())
    output = folder_of(folder)
    pieces = sorted([output / "trace_view.json", *output.glob("msprof_slice_*.json")])
    assert 40 < len(pieces) <= 100
    assert sum(piece.stat().st_size for piece in pieces) < 20 << 30
    assert 3 * (output / "trace.pftrace").stat().st_size < sum(piece.stat().st_size for piece in pieces)
    steps, found = count // 243, Counter()
    for piece in pieces:
        events = orjson.loads(piece.read_bytes())
        processes, threads, shown = set(), set(), set()
        ends = {"s": set(), "f": set()}
        for event in events:
            kind = event["ph"]
            if kind == "M":
                processes |= {event["pid"]} if event["name"] == "process_name" else set()
                threads |= {(event["pid"], event["tid"])} if event["name"] == "thread_name" else set()
            elif kind == "X":
                shown.add((event["pid"], event["tid"]))
                found["slices"] += event.get("args", {}).get("category") not in (None, "step")
            elif kind in ends:
                ends[kind].add(event["id"])
                found["flow ends"] += 1
            else:
                found[kind] += 1
        assert shown <= threads and {pid for pid, _ in shown} <= processes
        assert ends["s"] == ends["f"]
        piece.unlink()
    assert dict(found) == {"slices": 243 * steps, "C": steps, "flow ends": 2 * 60 * steps}
