"""Read two files of a result directory: the run's record, and how the job is divided among its ranks.

If a file cannot be read, its content counts as empty.
"""

from typing import Any

from ms_profiler.analysis.readers import side_files
from ms_profiler.store import layout, run_info
from ms_profiler.store.reader import ReadCounts


def read(directory: str, counts: ReadCounts) -> tuple[run_info.RunInfo, bool]:
    """Return the run's record, and whether it could be read.

    Args:
        directory: the directory of the result.
        counts: receives the name of an unreadable record, and the reason.
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
    """Return how the job is divided among its ranks. The process wrote this file, see `job.frameworks.strategy`.

    Args:
        path: the path of the file.
        counts: receives the name of an unreadable file, and the reason.
    """
    try:
        with open(path, "rb") as stream:
            content = side_files.parsed(stream.read())
    except FileNotFoundError:
        return {}
    except side_files.DAMAGE as error:
        counts.damaged_files.append((layout.STRATEGY, str(error) or "cannot be read"))
        return {}
    return content if isinstance(content, dict) else {}
