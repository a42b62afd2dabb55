"""Stand-ins for CUDA's libraries, with which a build of PyTorch for CUDA runs on a CPU where CUDA is not installed.

PyPI's wheels of PyTorch for Linux on x86-64 are linked to libraries of several gigabytes. `import torch` loads these
libraries; without a GPU it calls only the function that counts devices. So each missing library is made under its own
name, with the symbols and versions that the wheel's libraries look for, and with functions that return CUDA's error for
a host without a driver.
"""

import ctypes
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

#: cudaErrorInsufficientDriver: the answer of CUDA's runtime without a driver.
NO_DRIVER = 35
#: Size of a stand-in's variable in bytes; the largest real ones hold a few numbers.
VARIABLE_SIZE = 256
_NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[(?P<name>[^\]]+)\]")
_FILE = re.compile(r"Version: 1 +File: (?P<file>\S+)")
_VERSION = re.compile(r"Name: (?P<version>\S+) +Flags: ")
_SYMBOL = re.compile(
    r" *\d+: [0-9a-f]+ +\S+ +(?P<kind>[A-Z]+) +(?P<binding>[A-Z]+) +\S+ +(?P<section>\S+) "
    r"(?P<name>[^@\s]+)(?:@+(?P<version>\S+))?"
)
#: symbols of the interpreter and of its interface for extensions, which no library has
_INTERPRETER = re.compile(r"_?Py[A-Z_]")


@dataclass
class Library:
    """The parts of a library that the dynamic linker reads.

    Attributes:
        needed: names of the libraries it is linked to.
        versions: (library, version of symbols) that has to be there.
        wanted: required (symbol, its version or "") -> whether it is a variable.
        provided: symbols that others find in it.
    """

    needed: list[str] = field(default_factory=list)
    versions: list[tuple[str, str]] = field(default_factory=list)
    wanted: dict[tuple[str, str], bool] = field(default_factory=dict)
    provided: set[str] = field(default_factory=set)


def read(listing: str) -> Library:
    """Return the output of `readelf --wide --dynamic --version-info --dyn-syms` for a library."""
    library = Library()
    file = ""
    for line in listing.splitlines():
        if match := _SYMBOL.match(line):
            if match["section"] != "UND":
                library.provided.add(match["name"])
            elif match["binding"] == "GLOBAL":  # a weak one may be missing
                library.wanted[match["name"], match["version"] or ""] = match["kind"] == "OBJECT"
        elif match := _NEEDED.search(line):
            library.needed.append(match["name"])
        elif match := _FILE.search(line):
            file = match["file"]
        elif file and (match := _VERSION.search(line)):
            library.versions.append((file, match["version"]))
    return library


@dataclass
class StandIn:
    """The contents of a library in place of a missing one.

    Attributes:
        symbols: version or "" -> symbol -> whether it is a variable.
    """

    symbols: dict[str, dict[str, bool]] = field(default_factory=lambda: defaultdict(dict))

    def source(self) -> str:
        """Return the stand-in's source in C."""
        lines = [
            f"static long none(void) {{ return {NO_DRIVER}; }}",
            'static const char *text(void) { return ""; }',
        ]
        for names in self.symbols.values():
            for name, variable in names.items():
                if variable:
                    lines.append(f"char {name}[{VARIABLE_SIZE}];")
                else:
                    # functions that return a text return an empty one, all others an error number
                    alias = "text" if re.search("String|ErrorName", name) else "none"
                    lines.append(f'long {name}(void) __attribute__((alias("{alias}")));')
        return "\n".join(lines) + "\n"

    def script(self) -> str:
        """Return the versions of the stand-in's symbols as a script for the linker."""
        return "".join(
            f"{version} {{ {'global: ' + '; '.join(names) + ';' if names else ''} }};\n"
            for version, names in self.symbols.items()
            if version
        )


def stand_ins(libraries: list[Library], missing: set[str], host: Callable[[str], bool]) -> dict[str, StandIn]:
    """Return for each missing library the symbols that its stand-in needs.

    Args:
        libraries: the libraries of the wheel.
        missing: names of libraries that neither the wheel nor the host has.
        host: tells whether a library of the host has a symbol.
    """
    found = {name: StandIn() for name in sorted(missing)}
    owner: dict[str, str] = {}
    for library in libraries:
        for file, version in library.versions:
            if file in missing:
                owner[version] = file
                found[file].symbols[version]  # the version has to be there even where it has no symbol
    provided = set().union(*(library.provided for library in libraries))
    for library in libraries:
        unversioned = next((name for name in library.needed if name in missing), "")
        for (name, version), variable in library.wanted.items():
            if version in owner:
                found[owner[version]].symbols[version][name] = variable
            elif not (version or name in provided or _INTERPRETER.match(name) or host(name)) and unversioned:
                # no matter in which, as long as whoever looks for it is linked to it; one that the host has is asked
                # for without a version by some wheels, and would be found here first
                found[unversioned].symbols[""][name] = variable
    return found


def of_host(name: str) -> ctypes.CDLL | None:
    """Return this host's library with a name; None if the host has none."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def make(folder: Path) -> list[str]:
    """Put stand-ins beside the libraries of a wheel, where these are looked for first; return their names.

    Args:
        folder: `torch/lib` of an installed wheel.
    """
    files = sorted(folder.glob("*.so*"))
    command = ["readelf", "--wide", "--dynamic", "--version-info", "--dyn-syms"]
    libraries = [
        read(subprocess.run([*command, file], capture_output=True, text=True, check=True).stdout) for file in files
    ]
    present = {file.name for file in files}
    elsewhere = {name: of_host(name) for library in libraries for name in library.needed if name not in present}
    missing = {name for name, library in elsewhere.items() if library is None}
    hosts = [library for library in elsewhere.values() if library is not None]
    found = stand_ins(libraries, missing, lambda symbol: any(hasattr(library, symbol) for library in hosts))
    for name, stand_in in found.items():
        source, script = folder / f"{name}.c", folder / f"{name}.map"
        source.write_text(stand_in.source())
        script.write_text(stand_in.script())
        compiler = ["cc", "-shared", "-fPIC", "-O1", "-w", "-fno-builtin", f"-Wl,-soname,{name}"]
        versions = [f"-Wl,--version-script,{script}"] if script.read_text() else []
        subprocess.run([*compiler, *versions, "-o", folder / name, source], check=True)
        source.unlink()
        script.unlink()
    return sorted(missing)


if __name__ == "__main__":
    print(*make(Path(sys.argv[1])))
