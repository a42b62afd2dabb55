"""Find CANN, Ascend's toolkit: the job uses its libraries, the analysis its program `msprof`.

The functions search the folders that the toolkit's `set_env.sh` and its installers use. They load no library.
"""

import glob
import os
import re

#: environment variables with a toolkit's folder; newer toolkits' `set_env.sh` sets the first, older ones' the second
HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
USUAL = ("/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest")
TOOL = "msprof"
#: folders of a toolkit that may contain the program `msprof`
_TOOLS = ("bin", "tools/profiler/bin")
#: files of a toolkit that have a line with its version
_VERSIONS = (
    "*-linux/ascend_toolkit_install.info",
    "ascend_toolkit_install.info",
    "version.info",
    "runtime/version.info",
    "compiler/version.info",
)
#: number of parent folders of a library in which `version` looks for the toolkit
_ABOVE = 4
_VERSION = re.compile(r"^version=(\S+)", re.IGNORECASE | re.MULTILINE)


def homes() -> list[str]:
    """Return the folders that may contain a toolkit; the folders from environment variables come first."""
    chosen = [path for path in map(os.environ.get, HOMES) if path]
    return list(dict.fromkeys([*chosen, *USUAL]))


def version(path: str) -> str:
    """Return the version of the toolkit that contains a file, such as `CANN 8.2.RC1`; empty if it is unknown.

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
    """Return the path of msprof, the toolkit's reader of aclprof's files; empty if it is missing."""
    import shutil  # the import takes 3 ms, and no job needs it

    toolkit = [os.path.join(home, place, TOOL) for home in homes() for place in _TOOLS]
    return next(filter(None, map(shutil.which, [TOOL, *toolkit])), "")
