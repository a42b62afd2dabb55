"""Find CANN, Ascend's toolkit: its libraries serve the job, its `msprof` the analysis.

No function here loads a library. The places are those of the toolkit's `set_env.sh` and of its installers.
"""

import glob
import os
import re

#: set by `set_env.sh`, the second by that of older toolkits
HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
USUAL = ("/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest")
TOOL = "msprof"
#: where a toolkit has it
_TOOLS = ("bin", "tools/profiler/bin")
#: files of a toolkit that name its version in a line of their own
_VERSIONS = (
    "*-linux/ascend_toolkit_install.info",
    "ascend_toolkit_install.info",
    "version.info",
    "runtime/version.info",
    "compiler/version.info",
)
#: folders above a library that may be that of its toolkit
_ABOVE = 4
_VERSION = re.compile(r"^version=(\S+)", re.IGNORECASE | re.MULTILINE)


def homes() -> list[str]:
    """Return the folders that a toolkit may be in, the environment's first."""
    chosen = [path for path in map(os.environ.get, HOMES) if path]
    return list(dict.fromkeys([*chosen, *USUAL]))


def version(path: str) -> str:
    """Return the version of the toolkit that a file belongs to, as `CANN 8.2.RC1`; empty where nothing names it.

    Args:
        path: the path of a file in the toolkit.
    """
    home = os.path.dirname(os.path.realpath(path))
    for _ in range(_ABOVE):
        home = os.path.dirname(home)
        for place in _VERSIONS:
            for name in sorted(glob.glob(os.path.join(glob.escape(home), place))):
                try:
                    with open(name, encoding="utf-8", errors="replace") as stream:
                        found = _VERSION.search(stream.read(1 << 16))
                except OSError:
                    continue
                if found:
                    return f"CANN {found[1]}"
    return ""


def msprof() -> str:
    """Return the path of msprof, the toolkit's reader of aclprof's files; empty where it is missing."""
    import shutil  # 3 ms, and a job never asks

    toolkit = [os.path.join(home, place, TOOL) for home in homes() for place in _TOOLS]
    return next(filter(None, map(shutil.which, [TOOL, *toolkit])), "")
