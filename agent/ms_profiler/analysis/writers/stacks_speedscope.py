"""python_stacks.speedscope.json: the Python stacks that were sampled or traced, by time; each thread has a profile.

The file format is that of https://www.speedscope.app. The weight of a sample is the time for which the sample stands,
in nanoseconds. A traced call has an event for its begin and one for its end.
"""

import json
import os
from typing import Any, BinaryIO, Final

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.traced_calls import DRAWN, Calls
from ms_profiler.store import layout

_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.STACKS_SPEEDSCOPE)


def applies(measures: Measures) -> bool:
    """Return whether stacks were sampled, or calls traced."""
    return measures.stacks.known or measures.stacks.calls.known


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the profiles one after the other, because the text of all stacks may be too large for memory."""
    stacks = measures.stacks
    if not stacks.known:
        _write_calls(stacks.calls, stream)
        return
    frames: list[dict[str, Any]] = []
    numbers: dict[Any, int] = {}
    stream.write(f'{{"$schema":"{_SCHEMA}","exporter":"ms-profiler","profiles":['.encode())
    first = True
    for process, tree in stacks.trees.items():
        own = stacks.samples.filter(pl.col("process") == process)
        lane = own["place"].replace_strict(tree.threads, return_dtype=pl.Int64)
        merged = own.select("place", "count", lane=lane, run=pl.lit(own["place"]).rle_id()).sort(
            "lane", "run", maintain_order=True
        )
        for thread, rows in merged.group_by("lane", maintain_order=True):
            sums = rows.group_by(pl.col("place").rle_id().alias("run"), maintain_order=True).agg(
                pl.col("place").first(), pl.col("count").sum()
            )
            weights = (sums["count"] * stacks.period_ns).to_list()
            label = tree.functions[int(str(thread[0]))].label
            head: dict[str, Any] = {"type": "sampled", "name": f"{label}, process {process}", "unit": "nanoseconds"}
            head |= {"startValue": 0, "endValue": sum(weights)}
            text = json.dumps(head, separators=(",", ":"))[:-1]
            stream.write(f'{"" if first else ","}{text},"samples":['.encode())
            first = False
            known: dict[int, str] = {}
            for number, place in enumerate(sums["place"]):
                if place not in known:
                    path_of = []
                    for step in tree.path(place)[1:]:
                        function = tree.functions[step]
                        if function not in numbers:
                            numbers[function] = len(frames)
                            frames.append({"name": function.name, "file": function.file, "line": function.line})
                        path_of.append(numbers[function])
                    known[place] = json.dumps(path_of, separators=(",", ":"))
                stream.write(f"{',' if number else ''}{known[place]}".encode())
            stream.write(f'],"weights":{json.dumps(weights, separators=(",", ":"))}}}'.encode())
    stream.write(f'],"shared":{json.dumps({"frames": frames}, separators=(",", ":"))}}}\n'.encode())


def _write_calls(calls: Calls, stream: BinaryIO) -> None:
    """Write the begins and ends of traced calls. If a thread has more than `DRAWN` calls, write its longest calls."""
    stream.write(f'{{"$schema":"{_SCHEMA}","exporter":"ms-profiler","profiles":['.encode())
    for number, ((process, thread), label) in enumerate(calls.threads.items()):
        own = calls.of_thread(process, thread)
        if own.height > DRAWN:
            own = own.sort("duration_ns", descending=True).head(DRAWN).sort("row")
        base = int(own["start_ns"][0])
        until = int(str(own["end_ns"].max())) - base
        head = {"type": "evented", "name": label, "unit": "nanoseconds", "startValue": 0, "endValue": until}
        text = json.dumps(head, separators=(",", ":"))[:-1]
        stream.write(f'{"," if number else ""}{text},"events":['.encode())
        stack: list[tuple[int, int]] = []  # end, function
        first = True
        for start, end, function in own.select("start_ns", "end_ns", "function").iter_rows():
            while stack and stack[-1][0] <= start:
                stream.write(_event("C", *stack.pop(), base, first=False))
            stream.write(_event("O", start, function, base, first=first))
            first = False
            stack.append((end, function))
        while stack:
            stream.write(_event("C", *stack.pop(), base, first=False))
        stream.write(b"]}")
    frames = [{"name": item.name, "file": item.file, "line": item.line} for item in calls.functions]
    stream.write(f'],"shared":{json.dumps({"frames": frames}, separators=(",", ":"))}}}\n'.encode())


def _event(kind: str, time: int, function: int, base: int, *, first: bool) -> bytes:
    return f'{"" if first else ","}{{"type":"{kind}","frame":{function},"at":{time - base}}}'.encode()
