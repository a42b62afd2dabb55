"""Read a Python program without running it: which frameworks it imports, and where it sets MS_PROFILER_OPTIONS."""

import ast
import os
import sys
from dataclasses import dataclass, field

from ms_profiler.doctor.finding import Finding, cause, note, ok
from ms_profiler.job.frameworks import PLUGINS
from ms_profiler.job.origin import VARIABLE

#: largest number of files that `read` opens: the program and modules in its directory
_MOST = 200


@dataclass
class Reading:
    """Facts about a program and the modules in its directory.

    Attributes:
        frameworks: the frameworks that the program imports and ms-profiler can profile.
        others: imported packages that are neither part of Python nor in the directory of the program.
        sets: number of the line of the program that sets MS_PROFILER_OPTIONS; 0 if no line does.
    """

    frameworks: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    sets: int = 0


def examine(path: str) -> list[Finding]:
    """Return findings about a program from its source code.

    Args:
        path: the file of the program.
    """
    try:
        reading = read(path)
    except OSError as reason:
        return [cause("script", f"{path} cannot be read: {reason.strerror}.", "Name the script as the job does.")]
    except (SyntaxError, ValueError) as reason:
        return [note("script", f"{path} is no Python that this interpreter reads: {reason}.")]
    found = []
    if reading.sets:
        text = f"{path} sets {VARIABLE} itself, in line {reading.sets}. Python has started by then: that is too late."
        found.append(cause("script", text, "Set it in the shell, or start the job with `ms-profiler run`."))
    if reading.frameworks:
        return [*found, ok("script", f"{path} imports {' and '.join(sorted(reading.frameworks))}.")]
    if reading.others:
        text = (
            f"{path} imports neither {' nor '.join(PLUGINS)} itself; recording begins if one of these packages does: "
        )
        return [*found, note("script", text + ", ".join(sorted(reading.others)) + ".")]
    text = f"{path} imports neither {' nor '.join(PLUGINS)}, nor any package that could."
    return [*found, cause("script", text, "Only programs that use one of these frameworks are recorded.")]


def read(path: str) -> Reading:
    """Read a program and the modules in its directory that it imports.

    Raises:
        OSError: the program cannot be read.
        SyntaxError: the file is no Python program.
        ValueError: the file contains a NUL character.
    """
    reading = Reading()
    folder = os.path.dirname(os.path.abspath(path))
    waiting, seen = [path], {os.path.abspath(path)}
    while waiting and len(seen) < _MOST:
        file = waiting.pop()
        try:
            with open(file, "rb") as stream:
                tree = ast.parse(stream.read(), file)
        except (OSError, SyntaxError, ValueError):
            if file == path:
                raise
            continue
        if file == path:
            reading.sets = _sets(tree)
        for name in sorted(_imported(tree)):
            beside = _beside(folder, name)
            top = name.partition(".")[0]
            if beside:
                waiting += [each for each in beside if each not in seen]
                seen.update(beside)
            elif top in PLUGINS:
                reading.frameworks.add(top)
            elif top not in sys.stdlib_module_names:
                reading.others.add(top)
    return reading


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _beside(folder: str, name: str) -> list[str]:
    """Return the files in the program's directory that run when the program imports a name, such as `a.b`."""
    parts = name.split(".")
    files = []
    for count in range(1, len(parts) + 1):
        base = os.path.join(folder, *parts[:count])
        files += [file for file in (f"{base}.py", os.path.join(base, "__init__.py")) if os.path.isfile(file)]
    return files


def _sets(tree: ast.Module) -> int:
    """Return the number of the first line that sets MS_PROFILER_OPTIONS, as in `os.environ`; 0 if none does."""
    lines = [0]
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = [target.slice for target in node.targets if isinstance(target, ast.Subscript)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("setdefault", "putenv"):
                targets = node.args[:1]
            elif node.func.attr == "update":
                keys = [key for each in node.args if isinstance(each, ast.Dict) for key in each.keys if key]
                targets = [*keys, *(ast.Constant(word.arg) for word in node.keywords)]
        if any(isinstance(target, ast.Constant) and target.value == VARIABLE for target in targets):
            lines.append(getattr(node, "lineno", 0))
    return min(filter(None, lines), default=0)
