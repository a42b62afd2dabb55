"""Find where Dynamo, the tracer of `torch.compile`, broke a graph, and the functions of which it made no graph.

When Dynamo breaks a graph, it compiles the rest of the function as a function of its own, whose name has the name of
the original function and the line. If it breaks a graph inside of a loop, it gives the function up: then a compilation
was recorded, but never a run of its graph.
"""

import re
from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category

#: name of a function with which Dynamo continues after a graph break
RESUMED: Final = re.compile(r"(?P<owner>\S*?)(torch_dynamo_resume_in_)+(?P<name>\S+?)(_at_(?P<line>\d+))+$")
#: names of compilations that are not Dynamo's: `torch._dynamo.callback.CallbackTrigger`, in lower case
_OTHERS: Final = ("graph", "lazy backward", "triton autotuning", "cudagraph recording")
_COMPILE, _GRAPH = "compile ", "graph "


@dataclass(frozen=True)
class Broken:
    """The functions that `torch.compile` did not compile as a whole.

    Attributes:
        places: name of the function and line of the script, for each graph break.
        without: names of the functions of which Dynamo made no graph, so that their own operators run uncompiled.
    """

    places: tuple[tuple[str, int], ...] = ()
    without: tuple[str, ...] = ()


def broken(recording: tables.Recording, used: Steps) -> Broken:
    """Return where Dynamo broke graphs in the process that runs the steps; nothing if the framework is not PyTorch.

    The result is also empty if names are replaced (`anonymize`), because the places are a part of names.

    Args:
        recording: the run.
        used: the steps in use.
    """
    if recording.info.framework.get("name") != "torch" or recording.info.options.get("anonymize"):
        return Broken()
    spans, names = recording.spans, recording.names
    own = spans.filter(
        pl.col("process") == used.process, pl.col("category").is_in([int(Category.COMPILE), int(Category.GRAPH)])
    )
    named = own.select(names.gather(own["name"]).alias("name"), "start_ns")
    ran = set(named["name"].filter(named["name"].str.starts_with(_GRAPH)).str.slice(len(_GRAPH)))
    compiled = named.filter(pl.col("name").str.starts_with(_COMPILE)).with_columns(
        pl.col("name").str.slice(len(_COMPILE))
    )
    found = [(match, name) for name in compiled["name"].unique(maintain_order=True) if (match := RESUMED.match(name))]
    places = {(f"{match['owner']}{match['name']}", int(match["line"])) for match, _ in found}
    # a step that is not sampled has no records of runs of graphs
    unknown = intervals.locate(compiled["start_ns"], used.table.filter(~pl.col("recorded"))).is_not_null()
    given_up = compiled.filter(~unknown)["name"].unique(maintain_order=True).to_list()
    parts = ran | {function for function, _ in places} | set(_OTHERS)
    without = [name for name in given_up if name not in parts and not RESUMED.match(name)]
    return Broken(tuple(sorted(places)), tuple(without))
