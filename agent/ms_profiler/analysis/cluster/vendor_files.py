"""cluster_analysis_output: the four files of `msprof-analyze cluster -m all`, 26.2, with the same names and cells."""

import csv
import gc
import io
import os
from collections.abc import Iterable
from typing import Any, Final

import orjson

from ms_profiler.analysis.cluster import slow_links, vendor_ranks, vendor_steps
from ms_profiler.analysis.cluster.slow_links import SlowLink
from ms_profiler.analysis.cluster.vendor_communication import COLLECTIVE, P2P, Exchanges
from ms_profiler.analysis.metrics import group_numbers
from ms_profiler.store import layout

FOLDER: Final = "cluster_analysis_output"
STEPS: Final = "cluster_step_trace_time.csv"
COMMUNICATION: Final = "cluster_communication.json"
MATRIX: Final = "cluster_communication_matrix.json"
GROUPS: Final = "communication_group.json"


def write(directory: str, output: str) -> tuple[list[str], list[SlowLink]]:
    """Write the files of a job; return what was left out, a sentence each, and slow links between its ranks.

    Args:
        directory: of the results of its ranks.
        output: the directory that receives `cluster_analysis_output`.
    """
    # millions of small objects live until the end: looking for garbage among them takes a third of the time
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _write(vendor_ranks.find(directory), output)
    finally:
        if collecting:
            gc.enable()


def _write(found: vendor_ranks.Found, output: str) -> tuple[list[str], list[SlowLink]]:
    exchanges, steps = Exchanges(), vendor_steps.StepRows()
    known: dict[str, Any] = {}
    arguments: Any = None
    for rank, path in found.ranks.items():
        folder = layout.output_dir(path)
        exchanges.add(
            rank,
            vendor_ranks.content(os.path.join(folder, layout.COMMUNICATION), found.remarks),
            vendor_ranks.content(os.path.join(folder, layout.COMMUNICATION_MATRIX), found.remarks),
        )
        try:
            steps.add(rank, os.path.join(folder, layout.STEP_TRACE_TIME))
        except (OSError, ValueError, csv.Error) as error:
            found.remarks.append(f"Rank {rank} has no {layout.STEP_TRACE_TIME} that can be read ({error}).")
        metadata = vendor_ranks.content(os.path.join(path, layout.METADATA), found.remarks)
        arguments = arguments or metadata.get("distributed_args")
        for group, told in (metadata.get("parallel_group_info") or {}).items():
            known.setdefault(group, told)
    if not found.ranks:
        return found.remarks, []
    groups = _groups(exchanges, known)
    steps.add_stages(vendor_steps.stages(groups["comm_group_parallel_info"]))
    steps.add_layout(arguments)
    target = os.path.join(output, FOLDER)
    os.makedirs(target, mode=layout.DIRECTORY_MODE, exist_ok=True)
    _replace(os.path.join(target, GROUPS), [orjson.dumps(groups)])
    _replace(os.path.join(target, COMMUNICATION), exchanges.communication())
    _replace(os.path.join(target, MATRIX), exchanges.matrix())
    _replace(os.path.join(target, STEPS), [_text(steps)] if steps.rows else [])
    return found.remarks, slow_links.slow(exchanges.sums)


def _groups(exchanges: Exchanges, known: dict[str, Any]) -> dict[str, Any]:
    """Return the content of communication_group.json.

    Args:
        exchanges: of all ranks.
        known: what metadata tell of groups, by name.
    """
    numbered = {group_numbers.hashed(name): (name, told) for name, told in known.items()}
    rows = []
    for kind in (COLLECTIVE, P2P):
        for name, ranks in exchanges.groups[kind].items():
            label, told = numbered.get(name, ("", {}))
            row = {"type": kind, "rank_set": sorted(told.get("global_ranks") or ranks), "group_name": name}
            rows.append({**row, "group_id": label, "pg_name": told.get("group_name", "")})
    members = {kind: [list(ranks) for ranks in exchanges.groups[kind].values()] for kind in (COLLECTIVE, P2P)}
    return {**members, "comm_group_parallel_info": rows}


def _text(steps: vendor_steps.StepRows) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(steps.header)
    writer.writerows(steps.rows)
    return stream.getvalue().encode()


def _replace(path: str, parts: Iterable[bytes]) -> None:
    """Put a file in place of the one before, or remove that where there is nothing to say."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "wb") as stream:
        size = sum(stream.write(part) for part in parts)
    if size:
        os.replace(temporary, path)
        return
    for left in (temporary, path):
        if os.path.exists(left):
            os.unlink(left)
