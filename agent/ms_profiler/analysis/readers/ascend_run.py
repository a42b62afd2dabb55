"""Read facts about the run from a result of Ascend's tools, for example the rank and the tool that wrote the result."""

import json
import os
import re
from typing import Any, Final

from ms_profiler.analysis.metrics import transfers
from ms_profiler.analysis.model.tables import Device, Form
from ms_profiler.store import layout, unicode
from ms_profiler.store.reader import ReadCounts
from ms_profiler.store.run_info import RunInfo

_INFO: Final = re.compile(r"profiler_info(?:_(?P<rank>\d{1,9}))?\.json")
_RANK_DIRECTORY: Final = re.compile(r"rank_?(?P<rank>\d{1,9})")
_EXCHANGES: Final = (layout.COMMUNICATION, layout.COMMUNICATION_MATRIX)
_NO_PARTS: Final = "copies and waits inside exchanges are recorded from profiler level 1 on, and this result has none"
_REMOTE: Final = "a copy over RDMA consists of several tasks, which this version does not combine"
_IN_DATABASES: Final = "only the database form of a result has it"


def form(directory: str) -> Form:
    """Return the tool that wrote a result.

    The suffix of the directory's name tells the tool. If the suffix is unknown, the names of the databases in the
    directory tell it. The default is MindSpore.
    """
    name = os.path.basename(os.path.abspath(directory))
    for suffix, known in ((layout.SUFFIX, Form.MINDSPORE), (layout.TORCH_SUFFIX, Form.TORCH_NPU)):
        if name.endswith(suffix):
            return known
    output = layout.output_dir(directory)
    files = os.listdir(output) if os.path.isdir(output) else []
    pytorch = any(file.startswith("ascend_pytorch_profiler") for file in files)
    return Form.TORCH_NPU if pytorch else Form.MINDSPORE


def describe(directory: str, counts: ReadCounts) -> RunInfo:
    """Return the run's record, made from the metadata in a result of Ascend's tools.

    Args:
        directory: `*_ascend_ms` or `*_ascend_pt`.
        counts: receives the number of unreadable parts.
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
    return info


def note(info: RunInfo, device: Device, directory: str, ours: frozenset[str]) -> None:
    """Note in the run's record which files the tool did not write, and why ms-profiler cannot compute them.

    Args:
        info: the run's record.
        device: the device data that was read from the result.
        directory: `*_ascend_ms` or `*_ascend_pt`.
        ours: paths, relative to the directory, of files that ms-profiler wrote; they count as missing.
    """

    def missing(name: str) -> bool:
        path = os.path.join(layout.OUTPUT, name)
        return path in ours or not os.path.exists(os.path.join(directory, path))

    if device.tasks["exchange"].any():
        measured = transfers.known(device.transfers).select(transfers.KEY).unique().height
        found = device.transfers.select(transfers.KEY).unique().height
        why = _NO_PARTS if not found else _REMOTE if measured < found else ""
        info.not_collected += [{"what": name, "why": why} for name in _EXCHANGES if why and missing(name)]
    if device.allocations.is_empty() and missing(layout.OPERATOR_MEMORY):
        info.not_collected.append({"what": layout.OPERATOR_MEMORY, "why": _IN_DATABASES})
    if device.memory.is_empty() and missing(layout.MEMORY_RECORD):
        info.not_collected.append({"what": layout.MEMORY_RECORD, "why": "memory was not recorded"})


def _world(metadata: dict[str, Any], least: int) -> int:
    """Return the number of ranks of the job: the size of its largest group of ranks, but at least `least`."""
    groups = metadata.get("parallel_group_info", {})
    members = [group.get("global_ranks", []) for group in groups.values() if isinstance(group, dict)]
    return max([least, *(len(ranks) for ranks in members if isinstance(ranks, list))])


def _object(directory: str, name: str, counts: ReadCounts) -> dict[str, Any]:
    try:
        with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as stream:
            content = unicode.whole(json.load(stream))
    except (OSError, ValueError, RecursionError) as error:
        counts.damaged_files.append((name, str(error)))
        return {}
    return content if isinstance(content, dict) else {}
