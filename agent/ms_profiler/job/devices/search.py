"""Find the library of a device's tracing interface: in the process, or in one of the usual places.

If the process has loaded a copy of the library, this copy is used, because two copies would compete for the device.
This module loads no library.
"""

import glob
import os
import re
import sys
from _io import open
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ms_profiler import paths

MAPS = "/proc/self/maps"
_MAJOR = re.compile(r"\.so\.(\d+)")


@dataclass(frozen=True)
class Places:
    """The possible places of a library.

    Attributes:
        variable: environment variable with the path of the library to use.
        mapped: pattern that the path of a copy in this process matches.
        files: glob pattern of the library's file name.
        names: names for the system's loader, in the order in which to try them.
        packages: folders that have the library if it comes from PyPI, relative to a folder of `sys.path`.
        homes: environment variables that hold the folder of the vendor's installation.
        usual: glob patterns of the folder of the vendor's installation, tried after the variables.
        installed: folders of the library, relative to the folder of the vendor's installation.
        runtime: pattern that the path of the vendor's runtime in this process matches. Group 1 of the pattern is the
            major version that the library should have.
    """

    variable: str
    mapped: "re.Pattern[str]"
    files: str
    names: tuple[str, ...]
    packages: tuple[str, ...]
    homes: tuple[str, ...]
    usual: tuple[str, ...]
    installed: tuple[str, ...]
    runtime: "re.Pattern[str] | None" = None

    def libraries(self) -> list[str]:
        """Return the paths from which the library can be loaded, the preferred one first.

        The last paths may be bare names. If several versions are installed, the version of the loaded runtime comes
        first: a library that is newer than the driver cannot be used.
        """
        chosen = os.environ.get(self.variable)
        if chosen:
            return [chosen]
        there = mapped(self.mapped)
        if there:
            return there
        majors = set[str]()
        if self.runtime is not None:
            runtimes = [self.runtime.search(path) for path in mapped(self.runtime)]
            majors = {runtime[1] for runtime in runtimes if runtime}
        found = [*self.present(), *self.names]
        return sorted(dict.fromkeys(found), key=lambda path: not majors & set(_MAJOR.findall(path)))

    def present(self) -> Iterator[str]:
        """Yield the existing files in the usual places."""
        for folder in [*sys.path, paths.join(sys.prefix, "lib")] if self.packages else ():
            yield from self._below(folder, self.packages)
        usual = [folder for pattern in self.usual for folder in sorted(glob.glob(pattern), reverse=True)]
        for home in [*filter(None, map(os.environ.get, self.homes)), *usual]:
            yield from self._below(home, self.installed)

    def _below(self, folder: str, places: Iterable[str]) -> Iterator[str]:
        """Search subfolders of a folder for a library; yield the file with the shortest name in each subfolder.

        The shortest name has only the major version. `sys.path` may contain a relative folder. Such a folder yields
        nothing, because the choice of the library must not depend on the current directory.
        """
        for place in places if paths.isabs(folder) else ():
            for directory in sorted(glob.glob(paths.join(glob.escape(folder), place)), reverse=True):
                yield from sorted(glob.glob(paths.join(glob.escape(directory), self.files)), key=len)[:1]


def mapped(pattern: "re.Pattern[str]", maps: str = MAPS) -> list[str]:
    """Return the files that this process has mapped, if their paths match a pattern.

    Args:
        pattern: the regular expression to search for in each path.
        maps: path of the file in which the kernel lists the mappings.
    """
    try:
        with open(maps, encoding="utf-8", errors="surrogateescape") as stream:
            mapped = [line.rstrip("\n").split(maxsplit=5)[5] for line in stream if "/" in line]
    except OSError:
        return []
    return list(dict.fromkeys(path for path in mapped if pattern.search(path)))
