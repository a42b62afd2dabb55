"""python_stacks.folded: each Python stack that was sampled with how often, for flame graphs.

A line is the functions from the thread to the innermost one, with semicolons between them, a space, and a count: the
form of Brendan Gregg's FlameGraph, which inferno, speedscope and flamegraph.com read too.
"""

import os
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.store import layout


def path(measures: Measures) -> str:
    """Return where it goes."""
    return os.path.join(layout.OUTPUT, layout.STACKS_FOLDED)


def applies(measures: Measures) -> bool:
    """Return whether stacks were sampled."""
    return measures.stacks.known


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the stacks, by process and in the order of their first samples."""
    stacks = measures.stacks
    sums = stacks.samples.group_by("process", "place", maintain_order=True).agg(pl.col("count").sum())
    several = len(stacks.trees) > 1
    for process, place, count in sums.sort("process", maintain_order=True).iter_rows():
        tree = stacks.trees[process]
        labels = [tree.functions[number].label.replace(";", ",") for number in tree.path(place)]
        names = ";".join([f"process {process}"] * several + labels)
        stream.write(f"{names} {count}\n".replace("\r", "").encode())
