"""Read the run's record of a result directory, and a process's description of how the job is divided.

Both are empty where they cannot be read.
"""

from typing import Any

from ms_profiler.analysis.readers import side_files
from ms_profiler.store import layout, run_info
from ms_profiler.store.reader import ReadCounts


def read(directory: str, counts: ReadCounts) -> tuple[run_info.RunInfo, bool]:
    """Return the record, and whether it exists.

    Args:
        directory: the directory of the result.
        counts: collects an unreadable record.
    """
    try:
        return run_info.read_run(layout.run_info_path(directory)), True
    except FileNotFoundError:
        reason = "missing"
    except (OSError, ValueError, TypeError) as error:
        reason = str(error)
    counts.damaged_files.append((layout.RUN_INFO, reason))
    return run_info.RunInfo(), False


def strategy(path: str, counts: ReadCounts) -> dict[str, Any]:
    """Return how the job is divided among its ranks, see `job.frameworks.strategy`.

    Args:
        path: the path of the file.
        counts: collects an unreadable file.
    """
    try:
        with open(path, "rb") as stream:
            told = side_files.parsed(stream.read())
    except FileNotFoundError:
        return {}
    except side_files.DAMAGE as error:
        counts.damaged_files.append((layout.STRATEGY, str(error) or "cannot be read"))
        return {}
    return told if isinstance(told, dict) else {}
