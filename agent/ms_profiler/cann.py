"""Find CANN, the toolkit for Ascend NPUs: the job uses its libraries, the analysis uses its program `msprof`.

The functions search the folders that the toolkit's `set_env.sh` and its installers use. They load no library.
"""

import glob
import os
import re

#: Environment variables with the folder of a toolkit. The `set_env.sh` of newer toolkits sets the first, that of older
#: ones the second.
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
#: `version` searches for the toolkit in this number of folders above a library
_ABOVE = 4
_VERSION = re.compile(r"^version=(\S+)", re.IGNORECASE | re.MULTILINE)


def homes() -> list[str]:
    """Return the folders that may contain CANN; the folders from environment variables come first."""
    chosen = [path for path in map(os.environ.get, HOMES) if path]
    return list(dict.fromkeys([*chosen, *USUAL]))


def version(path: str) -> str:
    """Return the version of CANN to which a file belongs, such as `CANN 8.2.RC1`; empty if it is unknown.

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
    """Return the path of msprof, CANN's program that reads the files of aclprof; empty if it is missing."""
    import shutil  # not at the top: the import takes 3 ms, and no job needs it

    toolkit = [os.path.join(home, place, TOOL) for home in homes() for place in _TOOLS]
    return next(filter(None, map(shutil.which, [TOOL, *toolkit])), "")
