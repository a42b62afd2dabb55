"""python_stacks.speedscope.json: the Python stacks that were sampled, in order of time, a profile for each thread.

The form of https://www.speedscope.app, described by file-format-schema.json there. A weight is the time that a sample
stands for, in nanoseconds.
"""

import json
import os
from typing import Any, BinaryIO, Final

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.store import layout

_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def path(measures: Measures) -> str:
    """Return where it goes."""
    return os.path.join(layout.OUTPUT, layout.STACKS_SPEEDSCOPE)


def applies(measures: Measures) -> bool:
    """Return whether stacks were sampled."""
    return measures.stacks.known


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the profiles one after the other: all stacks together may be too large to hold as text."""
    stacks = measures.stacks
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
