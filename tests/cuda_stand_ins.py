"""Make stand-ins for CUDA's libraries, so that a build of PyTorch for CUDA runs on a CPU where CUDA is not installed.

PyPI's wheels of PyTorch for Linux on x86-64 are linked to libraries of several gigabytes. `import torch` loads these
libraries. On a host without a GPU it calls only the function that counts devices. So this program makes each missing
library under its own name, with the symbols and versions that the wheel's libraries look for. The functions of such a
library return CUDA's error for a host without a driver.
"""

import ctypes
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

#: cudaErrorInsufficientDriver: the error that CUDA's runtime returns on a host without a driver.
NO_DRIVER = 35
#: Size of a stand-in's variable in bytes. The largest real variable holds a few numbers.
VARIABLE_SIZE = 256
_NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[(?P<name>[^\]]+)\]")
_FILE = re.compile(r"Version: 1 +File: (?P<file>\S+)")
_VERSION = re.compile(r"Name: (?P<version>\S+) +Flags: ")
_SYMBOL = re.compile(
    r" *\d+: [0-9a-f]+ +\S+ +(?P<kind>[A-Z]+) +(?P<binding>[A-Z]+) +\S+ +(?P<section>\S+) "
    r"(?P<name>[^@\s]+)(?:@+(?P<version>\S+))?"
)
#: symbols of the Python interpreter and of its interface for extensions, which no library provides
_INTERPRETER = re.compile(r"_?Py[A-Z_]")


@dataclass
class Library:
    """The parts of a library that the dynamic linker reads.

    Attributes:
        needed: names of the libraries to which this library is linked.
        versions: (library, version of symbols) that this library requires.
        wanted: required (symbol, its version or "") -> whether it is a variable.
        provided: symbols that this library defines for other libraries.
    """

    needed: list[str] = field(default_factory=list)
    versions: list[tuple[str, str]] = field(default_factory=list)
    wanted: dict[tuple[str, str], bool] = field(default_factory=dict)
    provided: set[str] = field(default_factory=set)


def read(listing: str) -> Library:
    """Parse the output of `readelf --wide --dynamic --version-info --dyn-syms` for a library."""
    library = Library()
    file = ""
    for line in listing.splitlines():
        if match := _SYMBOL.match(line):
            if match["section"] != "UND":
                library.provided.add(match["name"])
            elif match["binding"] == "GLOBAL":  # a weak symbol may be missing
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
    """The symbols of a library that replaces a missing one.

    Attributes:
        symbols: {version, or "" without a version: {symbol: whether it is a variable}}.
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
                    # functions whose result is a text return an empty text, all others an error number
                    alias = "text" if re.search("String|ErrorName", name) else "none"
                    lines.append(f'long {name}(void) __attribute__((alias("{alias}")));')
        return "\n".join(lines) + "\n"

    def script(self) -> str:
        """Return a linker script that gives the stand-in's symbols their versions."""
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
        host: a function that returns whether a library of the host has a symbol.
    """
    found = {name: StandIn() for name in sorted(missing)}
    owner: dict[str, str] = {}
    for library in libraries:
        for file, version in library.versions:
            if file in missing:
                owner[version] = file
                found[file].symbols[version]  # the linker requires the version even if it has no symbol
    provided = set().union(*(library.provided for library in libraries))
    for library in libraries:
        unversioned = next((name for name in library.needed if name in missing), "")
        for (name, version), variable in library.wanted.items():
            if version in owner:
                found[owner[version]].symbols[version][name] = variable
            elif not (version or name in provided or _INTERPRETER.match(name) or host(name)) and unversioned:
                # Any stand-in that the library is linked to may define the symbol. Some wheels require a symbol of a
                # host's library without a version. A stand-in must not define such a symbol, because the linker would
                # find the stand-in first.
                found[unversioned].symbols[""][name] = variable
    return found


def of_host(name: str) -> ctypes.CDLL | None:
    """Load this host's library with a name and return it; None if the host has none."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def make(folder: Path) -> list[str]:
    """Put stand-ins beside the libraries of a wheel, where the linker looks first; return the names of the stand-ins.

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
