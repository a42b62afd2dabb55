"""What both forms of an Ascend result say beside their measurements: whose it is, and which rank."""

import json
import os
import re
from typing import Any, Final

from ms_profiler.analysis.tables import Form
from ms_profiler.store import layout
from ms_profiler.store.reader import ReadCounts
from ms_profiler.store.run_info import RunInfo

_INFO: Final = re.compile(r"profiler_info(?:_(?P<rank>\d{1,9}))?\.json")
_RANK_DIRECTORY: Final = re.compile(r"rank_?(?P<rank>\d{1,9})")
#: tables of the tools themselves that are not derived where they are missing, and why
_THEIRS: Final = {
    layout.COMMUNICATION: "this version does not split exchanges into transfers and waits",
    layout.COMMUNICATION_MATRIX: "this version does not split exchanges into links",
    layout.MEMORY_RECORD: "this version reads no memory from another tool's result",
}


def form(directory: str) -> Form:
    """Return whose result a directory is: by its name, then by its databases; MindSpore's where nothing tells."""
    name = os.path.basename(os.path.abspath(directory))
    for suffix, known in ((layout.SUFFIX, Form.MINDSPORE), (layout.TORCH_SUFFIX, Form.TORCH_NPU)):
        if name.endswith(suffix):
            return known
    output = layout.output_dir(directory)
    files = os.listdir(output) if os.path.isdir(output) else []
    pytorch = any(file.startswith("ascend_pytorch_profiler") for file in files)
    return Form.TORCH_NPU if pytorch else Form.MINDSPORE


def describe(directory: str, counts: ReadCounts) -> RunInfo:
    """Return what is known of the run.

    Args:
        directory: `*_ascend_ms` or `*_ascend_pt`.
        counts: is told what cannot be read.
    """
    torch = form(directory) == Form.TORCH_NPU
    info = RunInfo(framework={"name": "torch" if torch else "mindspore", "version": "", "device": "Ascend"})
    info.rank_known = False
    found = [(name, match) for name in sorted(os.listdir(directory)) if (match := _INFO.fullmatch(name))]
    for name, match in found[:1]:
        content = _object(directory, name, counts)
        if match["rank"] is not None:
            info.rank, info.rank_known = int(match["rank"]), True
        parameters = content.get("profiler_parameters", content.get("config", {}))
        info.options = parameters if isinstance(parameters, dict) else {}
        info.framework["version"] = str(content.get("ms_version", content.get("torch_npu_version", "")))
        own = content.get("ms_profiler_info", {})
        device = own.get("device_id", "0") if isinstance(own, dict) else "0"
        info.device_id = int(device) if str(device).isdecimal() else 0
    if not info.rank_known and (match := _RANK_DIRECTORY.match(os.path.basename(os.path.abspath(directory)))):
        info.rank = int(match["rank"])
    if os.path.exists(os.path.join(directory, layout.METADATA)):
        info.world_size = _world(_object(directory, layout.METADATA, counts), info.rank + 1)
    info.world_size = max(info.world_size, info.rank + 1)
    output = layout.output_dir(directory)
    info.not_collected = [
        {"what": name, "why": why} for name, why in _THEIRS.items() if not os.path.exists(os.path.join(output, name))
    ]
    return info


def _world(metadata: dict[str, Any], least: int) -> int:
    """Return how many ranks the job had, as far as its groups tell."""
    groups = metadata.get("parallel_group_info", {})
    members = [group.get("global_ranks", []) for group in groups.values() if isinstance(group, dict)]
    return max([least, *(len(ranks) for ranks in members if isinstance(ranks, list))])


def _object(directory: str, name: str, counts: ReadCounts) -> dict[str, Any]:
    try:
        with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as stream:
            content = json.load(stream)
    except (OSError, ValueError, RecursionError) as error:
        counts.damaged_files.append((name, str(error)))
        return {}
    return content if isinstance(content, dict) else {}
