"""Where CANN, Ascend's toolkit, is installed: its libraries serve the job, its `msprof` the analysis.

Nothing here loads anything. Places are those that `set_env.sh` of the toolkit sets, and its installers' own.
"""

import glob
import os
import re

#: set by `set_env.sh`, the second by that of older toolkits
HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
USUAL = ("/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest")
#: files of a toolkit that name its version in a line of their own
_VERSIONS = ("*-linux/ascend_toolkit_install.info", "compiler/version.info")
_VERSION = re.compile(r"^version=(\S+)", re.IGNORECASE | re.MULTILINE)


def homes() -> list[str]:
    """Return the folders that a toolkit may be in, the environment's first."""
    chosen = [path for path in map(os.environ.get, HOMES) if path]
    return list(dict.fromkeys([*chosen, *USUAL]))


def version(path: str) -> str:
    """Return the version of the toolkit that a file belongs to, empty where nothing names it.

    Args:
        path: of a file in the toolkit.
    """
    home = os.path.realpath(path)
    while home != os.path.dirname(home):
        home = os.path.dirname(home)
        for place in _VERSIONS:
            for name in sorted(glob.glob(os.path.join(glob.escape(home), place))):
                with open(name, encoding="utf-8", errors="replace") as stream:
                    found = _VERSION.search(stream.read(1 << 16))
                if found:
                    return found[1]
    return ""
