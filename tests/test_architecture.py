"""The parts of the tree import each other only as docs/architecture.md says, and import lazily."""

import ast
import functools
import os
import re
import subprocess
import sys

import ms_profiler
import pytest
from conftest import ROOT, environment

PACKAGE = ROOT / "agent" / "ms_profiler"
MODULES = sorted(PACKAGE.rglob("*.py"))

#: part of the tree -> the parts that it must not import. The job records, another interpreter analyses, and both import
#: only `store`.
FORBIDDEN = {
    "job": ("analysis", "gate", "cli", "api", "doctor", "_columns"),
    "analysis": ("job", "gate", "api", "cli", "doctor", "_native"),
    "gate": ("job", "api", "cli", "doctor", "_native", "_columns"),
    "store": ("job", "analysis", "api", "cli", "doctor", "_native", "_columns"),
    "doctor": ("analysis", "api", "cli", "_native", "_columns"),
    "api": ("analysis", "cli", "doctor"),
    "options": ("job", "analysis", "api", "cli", "store"),
    "option_types": ("job", "analysis", "api", "cli", "store"),
    "errors": ("job", "analysis", "api", "cli", "store", "options"),
    "log": ("job", "analysis", "api", "cli", "store", "options"),
    "cann": ("job", "analysis", "api", "cli", "store", "options"),
}
FRAMEWORKS = ("mindspore", "torch")
#: The analysis runs in the environment of jobs. It must need neither a framework nor a package for another machine.
HEAVY = ("polars", "rich", "numpy", "pandas", *FRAMEWORKS)


def name_of(path):
    parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports(path):
    """Return the full names of all imports of a module, including those in functions and those by `import_module`."""
    found = set()
    package = name_of(path).split(".") if path.name == "__init__.py" else name_of(path).split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            inner = {f"{module}.{alias.name}" for alias in node.names}
            # for `from package import name`, only the files show whether the name is a module
            outer = {module} if any(not _is_module(name) for name in inner) else set()
            found |= outer | inner
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            if called in ("import_module", "__import__"):
                found |= {word.value for word in node.args if isinstance(word, ast.Constant) and word.value}
    return found


def named(path):
    """Return the texts in a module that consist of a dotted name only, because they may name modules."""
    texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and re.fullmatch(r"\w+(\.\w+)+", text)}


def on_circles(targets):
    """Return the modules that lie on a circle of imports or between two circles.

    Args:
        targets: {module: the modules that it imports}.
    """
    remaining = set(targets)
    while ends := {name for name in remaining if not targets[name] & remaining - {name}}:
        remaining -= ends
    while starts := {name for name in remaining if not any(name in targets[other] for other in remaining - {name})}:
        remaining -= starts
    return remaining


def _is_module(name):
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.is_dir() or any(path.with_suffix(suffix).exists() for suffix in (".py", ".pyi"))


def part_of(name):
    """Return the part of our tree that contains a module, by its full name; "" for a module of another package."""
    parts = name.split(".")
    return parts[1] if parts[0] == "ms_profiler" and len(parts) > 1 else ""


def test_there_is_something_to_look_at():
    assert len(MODULES) > 30
    assert "ms_profiler.job.collection" in imports(PACKAGE / "job" / "bootstrap.py")


def importers(of, among=lambda path: True):
    """Return {module: its forbidden imports} for each module that has forbidden imports.

    Args:
        of: a function of a module's path and a name that returns whether the module must not import the name.
        among: a function of a module's path that returns whether the rule applies to the module.
    """
    found = {name_of(path): [name for name in imports(path) if of(path, name)] for path in MODULES if among(path)}
    return {module: names for module, names in found.items() if names}


def test_imports_point_one_way():
    assert importers(lambda path, name: part_of(name) in FORBIDDEN.get(part_of(name_of(path)), ())) == {}


def test_no_imports_run_in_a_circle():
    """Imports for types count, too, because a reader of one module in a circle has to read all of them."""
    names = {name_of(path) for path in MODULES}
    # a table of modules to load, such as the table of the commands, counts as imports
    targets = {name_of(path): (imports(path) | named(path)) & names for path in MODULES}
    # this import is in another interpreter, which `-m` starts
    targets["ms_profiler.job.devices.survey"] -= {"ms_profiler.job.devices.probe"}
    assert on_circles(targets) == set()


@pytest.mark.parametrize(
    "back",
    [
        "import ms_profiler.one",
        "from . import one",
        "from .one import name",
        "from ms_profiler import one",
        "from ms_profiler.one import name as other",
        "def later():\n    from ms_profiler import one",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ms_profiler.one import name",
        "try:\n    from .one import name\nexcept ImportError:\n    name = None",
        "import importlib\nimportlib.import_module('ms_profiler.one')",
        "TABLE = {'name': 'ms_profiler.one'}",
    ],
)
def test_a_planted_circle_is_found(back, tmp_path, monkeypatch):
    package = tmp_path / "ms_profiler"
    package.mkdir()
    monkeypatch.setitem(globals(), "PACKAGE", package)
    texts = {"__init__": "", "one": "import ms_profiler.two", "two": back, "three": "import ms_profiler.one"}
    paths = [package / f"{name}.py" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    targets = {name_of(path): (imports(path) | named(path)) & set(map(name_of, paths)) for path in paths}
    assert on_circles(targets) == {"ms_profiler.one", "ms_profiler.two"}


def test_one_module_puts_the_session_together():
    """All other modules take a `Host`. One place makes `ScriptSteps`, and none replaces it."""
    trees = {path.stem: ast.parse(path.read_text()) for path in (PACKAGE / "job").rglob("*.py")}
    made = {name: [] for name in ("Session", "Hooks", "Devices", "ScriptSteps")}
    for stem, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in made:
                made[node.func.id].append(stem)
    assert made == {
        "Session": ["collection", "collection"],
        "Hooks": ["session"],
        "Devices": ["session"],
        "ScriptSteps": ["session"],
    }
    knowing = {stem for stem, tree in trees.items() if "Session" in ast.dump(tree) or "job.session" in ast.dump(tree)}
    assert knowing == {"session", "collection"}


def test_devices_and_samplers_know_no_framework():
    for room in ("devices", "samplers", "recorder", "control"):
        for path in (PACKAGE / "job" / room).rglob("*.py"):
            folders = [f"ms_profiler.job.frameworks.{name}" for name in FRAMEWORKS]
            assert not [name for name in imports(path) if name.startswith(tuple(folders))], path


def test_names_of_modules_are_unique():
    """Within a wing of the tree, no two modules have the same name, except for those in the folders of frameworks."""
    for wing in ("job", "analysis", "gate"):
        files = [path for path in (PACKAGE / wing).rglob("*.py") if path.stem != "__init__"]
        seen = {}
        for path in files:
            place = "frameworks" if path.parent.parent.name == "frameworks" else path
            seen.setdefault(path.stem, set()).add(place)
        assert {stem: places for stem, places in seen.items() if len(places) > 1} == {}


def test_only_one_module_knows_each_extension():
    doors = {
        PACKAGE / "job" / "recorder" / "native.py": "ms_profiler._native",
        PACKAGE / "analysis" / "columns" / "native.py": "ms_profiler._columns",
    }
    extension = re.compile(r"(ms_profiler\.)?_(native|columns)(\..*)?")
    assert importers(lambda path, name: extension.fullmatch(name) and name != doors.get(path)) == {}


def test_frameworks_are_never_imported():
    """Only the job imports frameworks; ms-profiler finds them in `sys.modules`."""
    assert importers(lambda path, name: name.split(".")[0] in FRAMEWORKS) == {}


def test_only_the_analysis_needs_its_packages():
    others = importers(
        lambda path, name: name.split(".")[0] in HEAVY,
        among=lambda path: part_of(name_of(path)) not in ("analysis", "cli"),
    )
    assert others == {}


def test_the_package_imports_nothing():
    program = "import sys; before = set(sys.modules); import ms_profiler; print(sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); {program}"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert done.stdout == "['ms_profiler']\n"


def test_public_names_are_found_and_listed():
    for name in ms_profiler.__all__:
        assert getattr(ms_profiler, name) is not None
        assert name in dir(ms_profiler)
    assert callable(ms_profiler.analyse)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = ms_profiler.no_such_name


def test_no_module_carries_the_name_of_a_public_function():
    """Importing such a module would replace the function by the module."""
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not modules & set(ms_profiler.__all__)


def test_the_source_folders_are_no_packages():
    """With an `__init__.py` and the root of the repository on the path, Python would load ours as its sitecustomize."""
    assert not (ROOT / "agent" / "__init__.py").exists()
    assert not (ROOT / "sitecustomize" / "__init__.py").exists()
    missing = [path.parent for path in MODULES if not (path.parent / "__init__.py").exists()]
    assert missing == []


def test_the_version_is_written_once():
    text = (ROOT / "pyproject.toml").read_text()
    versions = re.findall(r'^version = "(.*)"$', text, re.MULTILINE)
    assert all(version == ms_profiler.__version__ for version in versions)


def test_nothing_is_printed_in_the_job():
    """Inside a job only `log.py` prints, and it never writes to stdout."""
    printing = []
    for path in MODULES:
        if part_of(name_of(path)) in ("job", "store", "options", "option_types", "log"):
            calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            printing += [name_of(path) for call in calls if isinstance(call, ast.Name) and call.id == "print"]
    assert printing == []


def test_no_file_is_larger_than_a_reader_takes_in():
    sources = [*MODULES, *(ROOT / "native").rglob("*.[ch]")]
    long = {os.path.relpath(path, ROOT): len(path.read_text().splitlines()) for path in sources}
    assert {name: lines for name, lines in long.items() if lines > 400} == {}
