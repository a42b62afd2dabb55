"""parallel_strategy.json: how the job is divided among its ranks; written with the option `parallel_strategy`.

The file contains the groups of ranks and the parallel dimensions, as in profiler_metadata.json. It also has facts that
the framework reports: process groups with their back ends, device meshes, and MindSpore's parallel context.
"""

import json
import os
from typing import Any, BinaryIO

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.readers import run_record
from ms_profiler.analysis.writers import metadata
from ms_profiler.store import layout


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.PARALLEL_STRATEGY)


def applies(measures: Measures) -> bool:
    """Return whether the file was requested, and has any content."""
    recording = measures.recording
    requested = not recording.foreign and bool(recording.info.options.get("parallel_strategy"))
    return requested and bool(metadata.parallel(measures) or _of_framework(measures))


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the file."""
    info = measures.recording.info
    content = {
        "framework": info.framework.get("name", ""),
        "rank": info.rank,
        "world_size": info.world_size,
        **metadata.parallel(measures),
        **_of_framework(measures),
    }
    stream.write(json.dumps(content, indent=4).encode() + b"\n")


def _of_framework(measures: Measures) -> dict[str, Any]:
    recording = measures.recording
    folder = layout.process_dir(recording.directory, measures.steps.process)
    return run_record.strategy(layout.strategy_path(folder), recording.counts)
