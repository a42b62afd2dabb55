"""The run's record of a result directory, or an empty one where it cannot be read."""

from ms_profiler.store import layout, run_info
from ms_profiler.store.reader import ReadCounts


def read(directory: str, counts: ReadCounts) -> tuple[run_info.RunInfo, bool]:
    """Return the record, and whether it exists.

    Args:
        directory: of the result.
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
