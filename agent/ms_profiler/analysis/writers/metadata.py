"""profiler_metadata.json: facts about the run, without measurements.

The file has the metadata that the script of the job added. Groups of ranks and parallel dimensions have the keys that
msprof-analyze reads. Further facts are texts under the key `ms_profiler`.
"""

import json
from typing import Any, BinaryIO

from ms_profiler.analysis.metrics import communication
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.store import layout


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return layout.METADATA


def applies(measures: Measures) -> bool:
    """Return whether the run's record was found."""
    return measures.recording.has_info


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the file."""
    info = measures.recording.info
    content = {
        **parallel(measures),
        **info.metadata,
        "ms_profiler": {
            "version": info.product_version,
            "host": info.host,
            "pid": str(info.pid),
            "rank": str(info.rank),
            "local_rank": str(info.local_rank),
            "world_size": str(info.world_size),
            "job": info.job,
            **({"role": info.role} if info.role else {}),
            **{f"actor_{key}": value for key, value in sorted(info.actor.items())},
            **({"attempt": str(info.attempt), "attempt_before": info.before} if info.attempt else {}),
            "python": info.python,
            **{f"framework_{key}": value for key, value in sorted(info.framework.items())},
        },
    }
    stream.write(json.dumps(content, indent=4).encode() + b"\n")


def parallel(measures: Measures) -> dict[str, Any]:
    """Return the members of each group of ranks, and the parallel dimensions of the job, as far as they are known."""
    recording = measures.recording
    rank, size = recording.info.rank, recording.info.world_size
    groups = communication.ranks(recording.instants, recording.names)
    known = {
        "parallel_group_info": {
            name: {"group_name": name, "group_rank": ranks.index(rank), "global_ranks": ranks}
            for name, ranks in sorted(groups.items())
            if rank in ranks
        },
        "distributed_args": communication.parallel(recording.instants, recording.names, size),
    }
    return {key: value for key, value in known.items() if value}
