"""profiler_metadata.json: what describes the run and is no measurement.

What the script gave it to carry, and text values under one key of ours.
"""

import json
from typing import BinaryIO

from ms_profiler.analysis.measures import Measures
from ms_profiler.store import layout


def path(measures: Measures) -> str:
    """Return where it goes."""
    return layout.METADATA


def applies(measures: Measures) -> bool:
    """Tell whether the run's record was found."""
    return measures.recording.has_info


def write(measures: Measures, stream: BinaryIO, *, pretty: bool) -> None:
    """Write the file."""
    info = measures.recording.info
    content = {
        **info.metadata,
        "ms_profiler": {
            "version": info.product_version,
            "host": info.host,
            "pid": str(info.pid),
            "rank": str(info.rank),
            "local_rank": str(info.local_rank),
            "world_size": str(info.world_size),
            "job": info.job,
            "python": info.python,
            **{f"framework_{key}": value for key, value in sorted(info.framework.items())},
        },
    }
    stream.write(json.dumps(content, indent=4).encode() + b"\n")
