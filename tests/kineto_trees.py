"""Read PyTorch's operators as trees, from our timeline and from Kineto's trace."""

import json
from collections import Counter, defaultdict


def ours(result):
    """Return (thread, start in ns, duration in ns, name) of the operators and markers in our timeline."""
    events = json.loads((result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    shown = [event for event in events if event["ph"] == "X" and event["args"].get("category") in ("marker", "op")]
    assert {event["cat"] for event in shown if event["args"]["category"] == "op"} == {"cpu_op"}
    return [
        (
            (event["pid"], event["tid"]),
            int(event["ts"].replace(".", "")),
            int(event["dur"].replace(".", "")),
            event["name"],
        )
        for event in shown
    ]


def theirs(trace):
    """Return (thread, start in ns, duration in ns, name) of the operators and annotations in Kineto's trace."""
    return [
        ((event["pid"], event["tid"]), round(event["ts"] * 1e3), round(event["dur"] * 1e3), event["name"])
        for event in json.loads(trace.read_text())["traceEvents"]
        if event["ph"] == "X" and event.get("cat") in ("cpu_op", "user_annotation")
    ]


def trees(events, mark):
    """Count how often an event of each name lies directly in an event of each other name, separately for each thread.

    The count includes only events that start during the event `mark`, whose name becomes "". It leaves out all_reduce
    of c10d, because Kineto draws it from one thread to another.

    Args:
        events: (thread, start in ns, duration in ns, name) of each event.
        mark: the name of an event that occurs once.

    Returns:
        For each thread, a Counter of (name, name of the event around it).
    """
    ((begin, length),) = [(start, duration) for _, start, duration, name in events if name == mark]
    found, around = defaultdict(Counter), defaultdict(list)
    for thread, start, duration, name in sorted(events, key=lambda event: (event[1], -event[2])):
        if not begin <= start <= begin + length or name == "gloo:all_reduce":
            continue
        stack = around[thread]
        while stack and stack[-1][0] <= start:
            stack.pop()
        found[thread]["" if name == mark else name, stack[-1][1] if stack else None] += 1
        stack.append((start + max(duration, 1), "" if name == mark else name))
    return sorted(found.values(), key=lambda counts: sorted(map(str, counts.items())))
