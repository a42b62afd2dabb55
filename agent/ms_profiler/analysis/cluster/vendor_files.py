"""cluster_analysis_output: the four files of `msprof-analyze cluster -m all` 26.2, with the same names and contents."""

import csv
import io
import os
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ms_profiler.analysis.cluster import slow_links, vendor_communication, vendor_ranks, vendor_steps
from ms_profiler.analysis.cluster.engines import Engine, Local, Lost, Task
from ms_profiler.analysis.cluster.slow_links import SlowLink
from ms_profiler.analysis.cluster.vendor_communication import COLLECTIVE, P2P, Entry, Exchanges
from ms_profiler.analysis.metrics import group_numbers
from ms_profiler.errors import StoreError
from ms_profiler.store import layout

FOLDER: Final = "cluster_analysis_output"
STEPS: Final = "cluster_step_trace_time.csv"
COMMUNICATION: Final = "cluster_communication.json"
MATRIX: Final = "cluster_communication_matrix.json"
GROUPS: Final = "communication_group.json"
#: number of ranks that one task reads
RANKS: Final = 16


@dataclass
class _Part:
    """What some ranks contribute to the files of all ranks.

    Attributes:
        entries: the entries of the exchanges, as `vendor_communication.entries` yields them.
        texts: the JSON texts of these entries, one after the other.
        steps: the rows of the steps of these ranks.
        arguments: the layout of the job, from the metadata of the first rank that has it.
        groups: the groups in the metadata, by name.
        remarks: a sentence for each file that cannot be read.
    """

    entries: list[Entry] = field(default_factory=list)
    texts: bytes = b""
    steps: vendor_steps.StepRows = field(default_factory=vendor_steps.StepRows)
    arguments: Any = None
    groups: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def write(
    directory: str, output: str, engine: Engine | None = None, others: Collection[str] = ()
) -> tuple[list[str], list[SlowLink]]:
    """Write the files of a job. Return a sentence for each result or file left out, and the slow links between ranks.

    Args:
        directory: the directory of the results of its ranks.
        output: the directory that receives `cluster_analysis_output`.
        engine: the engine that reads the ranks; by default this process.
        others: directories of results to leave out, because they are of other jobs or older.
    """
    found = vendor_ranks.find(directory, others)
    if not found.ranks:
        return found.remarks, []
    ranks = list(found.ranks.items())
    tasks = [
        Task(f"results of the ranks {', '.join(str(rank) for rank, _ in some)}", _read, some)
        for some in (ranks[first : first + RANKS] for first in range(0, len(ranks), RANKS))
    ]
    target = os.path.join(output, FOLDER)
    os.makedirs(target, mode=layout.DIRECTORY_MODE, exist_ok=True)
    with tempfile.TemporaryFile(dir=target) as file:
        return _write(found.remarks, target, (engine or Local(1)).each(tasks), Exchanges(file))


def _read(ranks: list[tuple[int, str]]) -> _Part:
    """Read the results of some ranks."""
    part, texts = _Part(), []
    for rank, path in ranks:
        folder = layout.output_dir(path)
        communication = vendor_ranks.content(os.path.join(folder, layout.COMMUNICATION), part.remarks)
        matrix = vendor_ranks.content(os.path.join(folder, layout.COMMUNICATION_MATRIX), part.remarks)
        for entry, text in vendor_communication.entries(rank, communication, matrix):
            part.entries.append(entry)
            texts.append(text)
        try:
            part.steps.add(rank, os.path.join(folder, layout.STEP_TRACE_TIME))
        except (OSError, ValueError, csv.Error, StoreError) as error:
            part.remarks.append(f"Rank {rank} has no {layout.STEP_TRACE_TIME} that can be read ({error}).")
        metadata = vendor_ranks.content(os.path.join(path, layout.METADATA), part.remarks)
        part.arguments = part.arguments or metadata.get("distributed_args")
        for group, facts in (metadata.get("parallel_group_info") or {}).items():
            part.groups.setdefault(group, facts)
    part.texts = b"".join(texts)
    return part


def _write(
    remarks: list[str], target: str, parts: Iterable[_Part | Lost], exchanges: Exchanges
) -> tuple[list[str], list[SlowLink]]:
    steps = vendor_steps.StepRows()
    known: dict[str, Any] = {}
    arguments: Any = None
    for part in parts:
        if isinstance(part, Lost):
            remarks.append(f"The {part.name} are left out: {part.why}.")
            continue
        exchanges.add(part.entries, part.texts)
        steps.join(part.steps)
        remarks += part.remarks
        arguments = arguments or part.arguments
        for group, facts in part.groups.items():
            known.setdefault(group, facts)
    groups = _groups(exchanges, known)
    steps.add_stages(vendor_steps.stages(groups["comm_group_parallel_info"]))
    steps.add_layout(arguments)
    replace(os.path.join(target, GROUPS), [orjson.dumps(groups)])
    replace(os.path.join(target, COMMUNICATION), exchanges.communication())
    replace(os.path.join(target, MATRIX), exchanges.matrix())
    replace(os.path.join(target, STEPS), [_text(steps)] if steps.rows else [])
    return remarks, slow_links.slow(exchanges.sums)


def _groups(exchanges: Exchanges, known: dict[str, Any]) -> dict[str, Any]:
    """Return the content of communication_group.json.

    Args:
        exchanges: the exchanges of all ranks.
        known: the groups in the metadata, by name.
    """
    numbered = {group_numbers.hashed(name): (name, facts) for name, facts in known.items()}
    rows = []
    for kind in (COLLECTIVE, P2P):
        for name, ranks in exchanges.groups[kind].items():
            label, facts = numbered.get(name, ("", {}))
            row = {"type": kind, "rank_set": sorted(facts.get("global_ranks") or ranks), "group_name": name}
            rows.append({**row, "group_id": label, "pg_name": facts.get("group_name", "")})
    members = {kind: [list(ranks) for ranks in exchanges.groups[kind].values()] for kind in (COLLECTIVE, P2P)}
    return {**members, "comm_group_parallel_info": rows}


def _text(steps: vendor_steps.StepRows) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(steps.header)
    writer.writerows(steps.rows)
    return stream.getvalue().encode()


def replace(path: str, parts: Iterable[bytes]) -> None:
    """Replace a file by new content. If the content is empty, remove the file.

    Args:
        path: the path of the file.
        parts: the content.

    Raises:
        OSError: the file cannot be written.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "wb") as stream:
        size = sum(stream.write(part) for part in parts)
    if size:
        os.replace(temporary, path)
        return
    for left in (temporary, path):
        if os.path.exists(left):
            os.unlink(left)
