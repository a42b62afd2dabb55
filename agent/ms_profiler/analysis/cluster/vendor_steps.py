"""Write the steps of all ranks as rows of cluster_step_trace_time.csv, in the form of msprof-analyze 26.2."""

import csv
import io
from dataclasses import dataclass, field
from typing import Any, Final

from ms_profiler.analysis.cluster import storage

#: columns of a rank's own file that the file of all ranks leaves out
_LEFT_OUT: Final = ("Step", "Device_id")
_HEAD: Final = ["Step", "Type", "Index"]
_PARALLEL: Final = ["DP Index", "PP Index", "TP Index"]
_UNKNOWN: Final = ["NA"] * len(_PARALLEL)
_RANK, _STAGE = "rank", "stage"


@dataclass
class StepRows:
    """The steps of all ranks, as rows of a table.

    Attributes:
        header: the names of the columns, from the first rank that has steps.
        rows: the rows, a list of cells each.
        ranks: the ranks that have a file of steps.
    """

    header: list[str] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)

    def add(self, rank: int, path: str) -> None:
        """Add the steps of a rank.

        Args:
            rank: number of the rank.
            path: the path of its step_trace_time.csv.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is not text.
            StoreError: the object store does not answer.
        """
        reader = csv.DictReader(io.StringIO(storage.content(path).decode(), newline=""))
        names = [name for name in reader.fieldnames or () if name not in _LEFT_OUT]
        rows = [[row.get("Step", ""), _RANK, rank, *(_number(row[name]) for name in names)] for row in reader]
        self.ranks.add(rank)
        self.rows += rows
        if rows and not self.header:
            self.header = [*_HEAD, *names]

    def join(self, other: "StepRows") -> None:
        """Add the steps of other ranks.

        Args:
            other: the steps to add; `other` must not be used afterwards.
        """
        self.ranks |= other.ranks
        self.rows += other.rows
        self.header = self.header or other.header

    def add_stages(self, stages: list[list[int]]) -> None:
        """Add a row for each step and pipeline stage, with the largest times of the stage's ranks.

        Args:
            stages: the ranks of each stage.
        """
        places = {rank: tuple(stage) for stage in reversed(stages) for rank in stage}
        groups: dict[tuple[str, tuple[int, ...]], list[list[Any]]] = {}
        for row in self.rows if stages else ():
            groups.setdefault((row[0], places.get(row[2], ())), []).append(row[len(_HEAD) :])
        for (step, stage), rows in groups.items():
            self.rows.append([step, _STAGE, stage, *map(max, zip(*rows, strict=False))])

    def add_layout(self, arguments: Any) -> None:
        """Add the columns `DP Index`, `PP Index` and `TP Index`, if the layout is known and fits the number of ranks.

        Args:
            arguments: the arguments of Megatron, by name, as the metadata of a rank has them.
        """
        found = layout(arguments)
        if not found or len(found) < len(self.ranks):
            return
        self.header += _PARALLEL
        for row in self.rows:
            row += found.get(row[2], _UNKNOWN) if row[1] == _RANK else _UNKNOWN


def layout(arguments: Any) -> dict[int, list[int]]:
    """Return rank -> [data index, pipeline index, tensor index]; empty if the layout is unknown.

    Megatron numbers the ranks in this way:

        rank = pipeline index * (world size / pipeline size) + data index * tensor size + tensor index

    Args:
        arguments: the arguments of Megatron, by name.
    """
    if not isinstance(arguments, dict):
        return {}
    names = (
        "world_size",
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "data_parallel_size",
        "context_parallel_size",
        "expert_model_parallel_size",
    )
    sizes = [arguments.get(name, 1) for name in names]
    if not all(isinstance(size, int) for size in sizes):
        return {}
    world, tensors, pipelines, data, contexts, experts = sizes[0], *(size or 1 for size in sizes[1:])
    if contexts > 1 or data % experts or world != tensors * pipelines * data:
        return {}
    part = world // pipelines
    return {
        rank: [rank % part // tensors, rank // part, rank % tensors]
        for rank in range(world)
    }  # fmt: skip


def stages(groups: list[dict[str, Any]]) -> list[list[int]]:
    """Return the ranks of each pipeline stage; empty if no group of ranks belongs to a pipeline.

    Ranks of one collective group are in one stage. Groups that have two ranks of one pipeline are left out, because
    they span several stages.

    Args:
        groups: `comm_group_parallel_info` of communication_group.json.
    """
    links = [
        set(group["rank_set"])
        for group in groups
        if group["type"] == "p2p" and str(group["pg_name"]).lower().startswith("pp")
    ]
    links.sort(key=min)
    pipelines: list[set[int]] = []
    while links:
        joined, rest = set(links[0]), []
        for link in links[1:]:
            if link & joined:
                joined |= link
            elif link != links[0]:
                rest.append(link)
        links = rest
        pipelines.append(joined)
    if not pipelines:
        return []
    found: dict[int, set[int]] = {}
    for group in groups:
        ranks = set(group["rank_set"])
        if group["type"] != "collective" or any(len(ranks & pipeline) > 1 for pipeline in pipelines):
            continue
        for first in [first for first, stage in found.items() if stage & ranks]:
            ranks |= found.pop(first)
        found[min(ranks)] = ranks
    return [list(found[first]) for first in sorted(found)]


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        return 0
