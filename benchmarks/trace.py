"""Measure the first and the second analysis of a large trace of another tool, made of copies of a small trace.

usage: trace.py TRACE [COPIES]

The copies follow one another in time. Each copy has its own correlation ids, flows and steps.
"""

import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pairs

#: those arguments of an event whose numbers must differ from copy to copy
IDS = ("correlation", "External id", "Ev Idx", "Sequence number", "cbid_correlation")


def copied(event: dict[str, Any], number: int, apart_us: float, most: int) -> dict[str, Any]:
    """Return an event of the original trace as it appears in a copy.

    Args:
        event: an event of the original trace.
        number: the number of the copy, from 0.
        apart_us: the time in microseconds from the begin of one copy to the begin of the next.
        most: the difference between the ids of one copy and the ids of the next copy.
    """
    new = dict(event)
    new["ts"] = float(event["ts"]) + number * apart_us
    if "id" in event and isinstance(event["id"], int):
        new["id"] = event["id"] + number * most
    arguments = event.get("args")
    if number and isinstance(arguments, dict):
        changed = {key: arguments[key] + number * most for key in IDS if isinstance(arguments.get(key), int)}
        new["args"] = arguments | changed
    name = event.get("name", "")
    if isinstance(name, str) and name.startswith("ProfilerStep#"):
        new["name"] = f"ProfilerStep#{int(name.rpartition('#')[2]) + 1000 * number}"
    return new


def made(path: Path, copies: int, target: Path) -> int:
    """Write a trace that consists of copies of another trace; return the number of events in the written trace."""
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as stream:
        trace = json.load(stream)
    events = trace["traceEvents"]
    timed = [event for event in events if "ts" in event and event.get("ph") != "M"]
    rest = [event for event in events if "ts" not in event or event.get("ph") == "M"]
    begin = min(float(event["ts"]) for event in timed)
    end = max(float(event["ts"]) + float(event.get("dur", 0)) for event in timed)
    numbers = [
        event["args"][key]
        for event in timed
        if isinstance(event.get("args"), dict)
        for key in IDS
        if isinstance(event["args"].get(key), int)
    ]
    numbers += [event["id"] for event in timed if isinstance(event.get("id"), int)]
    most = max(numbers, default=0) + 1
    with target.open("w") as stream:
        head = {key: value for key, value in trace.items() if key != "traceEvents"}
        stream.write(json.dumps(head)[:-1] + (", " if head else "") + '"traceEvents": [\n')
        stream.write(",\n".join(json.dumps(event) for event in rest))
        for number in range(copies):
            for event in timed:
                stream.write(",\n" + json.dumps(copied(event, number, (end - begin) * 1.05, most)))
        stream.write("\n]}")
    return len(rest) + copies * len(timed)


def looked(*arguments: str) -> tuple[float, float]:
    """Run a command of ms-profiler; return its wall time and its processor time in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "ms_profiler", *arguments], check=True, stdout=subprocess.DEVNULL)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def main() -> None:
    path, copies = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 29
    print(pairs.machine())
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "copies.json"
        events = made(path, copies, target)
        print(f"{events:,} events, {target.stat().st_size / 1e6:.0f} MB")
        query = "select count(*), sum(dur) from kernels"
        for what, arguments in (
            ("summary, the first time", ("summary", str(target))),
            ("sql, the first time", ("sql", str(target), query)),
            ("sql, a second time", ("sql", str(target), query)),
        ):
            wall, processor = looked(*arguments)
            print(
                f"{what:30} {wall:7.1f} s, {processor:7.1f} s of processors, {processor / events * 1e6:.1f} us an event"
            )
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"at most {most / 1024:.0f} MB")


if __name__ == "__main__":
    main()
