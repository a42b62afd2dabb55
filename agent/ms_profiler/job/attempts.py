"""Find earlier attempts of this rank.

When one rank fails, torchrun starts all ranks again. Each of these attempts makes its own result directory.
"""

import posix
from collections.abc import Mapping

from ms_profiler import paths
from ms_profiler.job.process import Identity
from ms_profiler.store import anonymous, layout, run_info

#: torchrun's environment variable with the number of times that it restarted the ranks
_RESTARTS = "TORCHELASTIC_RESTART_COUNT"


def earlier(folder: str, own: Identity, info: run_info.RunInfo, environ: Mapping[str, str]) -> tuple[int, str]:
    """Return how often torchrun started this rank before, and the name of the newest result of these attempts or "".

    At the first attempt, this function reads no file.

    Args:
        folder: the folder of the results.
        own: rank and job of this process.
        info: run information of this process; an earlier attempt has the same host, boot id and rank.
        environ: the environment variables of this process.
    """
    count = environ.get(_RESTARTS, "")
    if not (count.isascii() and count.isdecimal() and len(count) < 6) or not int(count):
        return 0, ""
    found = (0.0, "")
    try:
        for name in posix.listdir(folder):
            if not name.endswith((layout.SUFFIX, layout.TORCH_SUFFIX)):
                continue
            try:
                known = run_info.read_run(layout.run_info_path(paths.join(folder, name)))
            except (OSError, ValueError):
                continue
            same = (known.host, known.boot_id, known.rank) == (info.host, info.boot_id, own.rank)
            same = same and known.job in (own.job, anonymous.word(own.job))
            if same and known.pid != info.pid and known.attempt < int(count):
                found = max(found, (known.started_wall, name))
    except OSError:
        pass
    return int(count), found[1]
