"""Group the results of ranks into jobs."""

import os
import re
from typing import Any, Final

from ms_profiler.analysis.driver import inputs
from ms_profiler.analysis.driver.ledger import read_summary
from ms_profiler.store import layout, run_info

_RANK: Final = re.compile(r"^profiler_info_(\d+)\.json$")


def jobs(paths: list[str]) -> list[list[str]]:
    """Return a list of results for each job, in the order of the ranks.

    Ranks of one job have the same job id in the run's record. Results of other profilers form one job if they lie in
    one directory and have different ranks.

    Args:
        paths: the paths of the results, from `engine.find`.
    """
    found: dict[Any, list[tuple[int, str]]] = {}
    for number, path in enumerate(paths):
        job, rank = _job(path)
        known = found.get(job, [])
        alone = job is None or rank in [other for other, _ in known]
        found.setdefault(("single", number) if alone else job, []).append((rank, path))
    return [[path for _, path in sorted(ranks)] for ranks in found.values()]


def _job(path: str) -> tuple[Any, int]:
    """Return the job id of a result, or None if it is not known, and the rank of the result."""
    kind = inputs.kind(path)
    if kind == inputs.Kind.STORE:
        try:
            info = run_info.read_run(layout.run_info_path(path))
        except (OSError, ValueError):
            return None, 0
        return (("job", info.job) if info.job and info.world_size > 1 else None), info.rank
    if kind == inputs.Kind.ASCEND:
        ranks = [int(found[1]) for name in os.listdir(path) if (found := _RANK.match(name))]
        return (("folder", os.path.dirname(os.path.abspath(path))), ranks[0]) if ranks else (None, 0)
    summary = read_summary(inputs.result(path)) or {}
    return None, int(summary.get("rank") or 0)
