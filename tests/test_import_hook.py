"""Callbacks of watched imports run at the right time, and a watched module is like an unwatched one."""

import importlib
import importlib.resources
import importlib.util
import inspect
import os
import pkgutil
import subprocess
import sys
import threading
import time
import traceback
import zipfile
from pathlib import Path

import pytest
from ms_profiler import log as messages
from ms_profiler.job.frameworks import import_hook

AGENT = Path(__file__).parent.parent / "agent"


def interpreter(program, *args, path=(AGENT,)):
    """Run a program in a new interpreter, and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


class Log(list):
    """Collect the calls of the callbacks, in order."""

    def before(self, name):
        self.append(("before", name))

    def after(self, name, module, start_ns, end_ns):
        self.append(("after", name))
        self.module, self.times = module, (start_ns, end_ns)

    def failed(self, name):
        self.append(("failed", name))

    def watch(self, name):
        import_hook.watch(name, before=self.before, after=self.after, failed=self.failed)


@pytest.fixture
def log():
    yield Log()
    import_hook.clear()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a directory from which a test imports modules; after the test, Python forgets these modules."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith("watched"):
            del sys.modules[name]
    importlib.invalidate_caches()


def package(place):
    (place / "watched").mkdir()
    (place / "watched" / "__init__.py").write_text("value = 1\nfrom watched import part\n")
    (place / "watched" / "part.py").write_text("value = 2\n")
    (place / "watched" / "data.txt").write_text("data")


def test_called_around_the_execution(place, log):
    (place / "watched.py").write_text("import time\nbegan = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)\n")
    log.watch("watched")
    earliest = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    import watched

    start, end = log.times
    assert earliest <= start <= watched.began <= end <= time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    assert log == [("before", "watched"), ("after", "watched")]
    assert log.module is watched


def test_a_submodule(place, log):
    package(place)
    log.watch("watched")
    log.watch("watched.part")
    importlib.import_module("watched")
    part = "watched.part"
    assert log == [("before", "watched"), ("before", part), ("after", part), ("after", "watched")]


def test_looking_for_a_module_is_not_importing_it(place, log):
    (place / "watched.py").write_text("")
    log.watch("watched")
    spec = importlib.util.find_spec("watched")
    assert spec.origin == str(place / "watched.py")
    assert isinstance(spec.loader, importlib.machinery.SourceFileLoader)
    assert log == []
    assert "watched" not in sys.modules


def test_a_watched_module_is_as_it_would_be(place, log):
    package(place)
    bare = importlib.import_module("watched")
    bare = {"loader": vars(bare.__loader__).copy(), "type": type(bare.__loader__), "names": set(vars(bare))}
    del sys.modules["watched"], sys.modules["watched.part"]
    log.watch("watched")
    watched = importlib.import_module("watched")
    assert watched.__loader__ is watched.__spec__.loader
    assert {"loader": vars(watched.__loader__), "type": type(watched.__loader__), "names": set(vars(watched))} == bare
    assert inspect.getsource(watched) == (place / "watched" / "__init__.py").read_text()
    assert importlib.resources.files("watched").joinpath("data.txt").read_text() == "data"
    assert pkgutil.get_data("watched", "data.txt") == b"data"
    assert [found.name for found in pkgutil.iter_modules(watched.__path__)] == ["part"]


def test_the_loader_is_itself_again_before_the_module_runs(place, log):
    (place / "watched.py").write_text("seen = 'exec_module' in vars(__loader__)")
    log.watch("watched")
    assert importlib.import_module("watched").seen is False


def test_a_reload_is_an_execution(place, log):
    (place / "watched.py").write_text("value = 1")
    log.watch("watched")
    watched = importlib.import_module("watched")
    (place / "watched.py").write_text("value = 23")
    assert importlib.reload(watched) is watched
    assert watched.value == 23
    assert log == [("before", "watched"), ("after", "watched")] * 2


def test_a_module_that_was_imported_before_is_reported_at_once(place, log):
    (place / "watched.py").write_text("")
    watched = importlib.import_module("watched")
    log.watch("watched")
    assert log == [("after", "watched")]
    assert log.module is watched
    assert log.times == (0, 0)


def test_a_module_that_puts_another_object_in_its_place(place, log):
    (place / "watched.py").write_text("import sys, types\nsys.modules[__name__] = types.SimpleNamespace(value=5)")
    log.watch("watched")
    assert importlib.import_module("watched").value == 5
    assert log.module.value == 5


FAILING = {
    "error": "def f():\n    return 1 / 0\nf()\n",
    "import": "import watched_no_such_module\n",
    "name": "from os import no_such_name\n",
    "syntax": "x = (\n",
    "exit": "raise SystemExit(3)\n",
    "interrupt": "raise KeyboardInterrupt\n",
    "inner": "import watched_inner\n",
}


@pytest.mark.parametrize("kind", FAILING)
def test_a_failing_import_fails_as_it_would(place, log, kind):
    (place / "watched.py").write_text(FAILING[kind])
    (place / "watched_inner.py").write_text("1 / 0\n")

    def outcome():
        try:
            import watched  # noqa: F401
        except BaseException:  # noqa: BLE001
            return traceback.format_exc()
        return "imported"

    bare = outcome()
    log.watch("watched")
    log.watch("watched_inner")
    assert outcome() == bare
    assert ("failed", "watched") in log
    assert ("after", "watched") not in log
    assert "watched" not in sys.modules


def test_a_module_that_does_not_exist(place, log):
    log.watch("watched")
    with pytest.raises(ModuleNotFoundError, match="No module named 'watched'") as caught:
        import watched  # noqa: F401
    assert len(caught.traceback) == 1
    assert log == []


def test_a_callback_that_raises_costs_a_line(place, log, capfd, monkeypatch):
    monkeypatch.setattr(messages, "_start", os.fstat(2))
    (place / "watched.py").write_text("")

    def broken(*_):
        raise ValueError("ours")

    import_hook.watch("watched", before=broken)
    log.watch("watched")
    importlib.import_module("watched")
    assert log == [("before", "watched"), ("after", "watched")]
    (line,) = capfd.readouterr().err.splitlines()
    assert line == "ms-profiler: at the import of watched: ValueError: ours; the job continues without it"


def test_a_callback_that_raises_is_seen_in_tests(place, log, monkeypatch):
    (place / "watched.py").write_text("")
    monkeypatch.setenv(import_hook.RAISE, "1")

    def broken(*_):
        raise ValueError("ours")

    import_hook.watch("watched", before=broken)
    with pytest.raises(ValueError, match="ours"):
        importlib.import_module("watched")


@pytest.mark.parametrize("first", ["ours", "wrapt"])
def test_beside_the_hooks_of_wrapt(place, first):
    """The test uses a new interpreter, because wrapt installs its finder only once."""
    (place / "watched.py").write_text("print('executed')")
    program = """
import sys, wrapt
from ms_profiler.job.frameworks import import_hook
steps = [
    lambda: import_hook.watch("watched", after=lambda name, module, start, end: print("ours", module.__name__)),
    lambda: wrapt.register_post_import_hook(lambda module: print("wrapt", module.__name__), "watched"),
]
for step in steps if sys.argv[1] == "ours" else reversed(steps):
    step()
import watched
print(watched.__loader__ is watched.__spec__.loader, sorted(vars(watched.__loader__)))
"""
    out = interpreter(program, first, path=[place, AGENT])
    assert sorted(out.splitlines()) == ["True ['name', 'path']", "executed", "ours watched", "wrapt watched"]


def test_threads_that_import_at_once(place, log):
    (place / "watched.py").write_text("import time\ntime.sleep(0.05)\nvalue = 1")
    log.watch("watched")
    barrier = threading.Barrier(8)
    values = []

    def load():
        barrier.wait()
        values.append(importlib.import_module("watched").value)

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert values == [1] * 8
    assert log == [("before", "watched"), ("after", "watched")]


def test_a_search_in_one_thread_does_not_blind_another(place, log):
    """The hook watches imports of one thread while another thread is inside a slow finder.

    The test calls the finder without importlib's lock, as finders of other tools call each other.
    """
    (place / "watched.py").write_text("")
    log.watch("watched")
    inside, go = threading.Event(), threading.Event()
    main = threading.current_thread()

    class Slow:
        def find_spec(self, name, path=None, target=None):
            if name == "watched" and threading.current_thread() is not main:
                inside.set()
                assert go.wait(30)

    slow = Slow()
    (ours,) = [finder for finder in sys.meta_path if isinstance(finder, import_hook.Finder)]
    sys.meta_path.insert(0, slow)
    try:
        thread = threading.Thread(target=ours.find_spec, args=("watched",))
        thread.start()
        assert inside.wait(30)
        importlib.import_module("watched")
        go.set()
        thread.join(30)
    finally:
        go.set()
        sys.meta_path.remove(slow)
    assert log == [("before", "watched"), ("after", "watched")]


def test_modules_of_one_archive_share_a_loader(place, log):
    with zipfile.ZipFile(place / "archive.zip", "w") as archive:
        archive.writestr("watched_a.py", "import watched_other\nimport watched_b\n")
        archive.writestr("watched_b.py", "")
        archive.writestr("watched_other.py", "")
    sys.path.insert(0, str(place / "archive.zip"))
    try:
        log.watch("watched_b")
        log.watch("watched_a")
        assert importlib.util.find_spec("watched_b") is not None
        module = importlib.import_module("watched_a")
        assert sorted(log) == sorted((when, f"watched_{name}") for when in ("before", "after") for name in "ab")
        assert importlib.import_module("watched_other").__loader__ is module.__loader__
    finally:
        sys.path.remove(str(place / "archive.zip"))


def test_an_extension_module():
    """The test uses a new interpreter, because an extension module cannot be imported twice."""
    program = """
import importlib.machinery, importlib.util, sys
names = ("_zoneinfo", "_csv", "_json", "_bisect", "_heapq", "_decimal", "_queue", "_sqlite3", "_multiprocessing")
specs = {name: importlib.util.find_spec(name) for name in names if name not in sys.modules}
name = next(n for n, s in specs.items() if s and isinstance(s.loader, importlib.machinery.ExtensionFileLoader))
from ms_profiler.job.frameworks import import_hook
import_hook.watch(name, after=lambda *arguments: print(arguments[0] == name, arguments[3] > arguments[2] > 0))
importlib.import_module(name)
"""
    assert interpreter(program) == "True True\n"


def test_modules_without_a_loader_of_their_own_are_left_alone(place, log):
    (place / "watched_space").mkdir()
    log.watch("watched_space")
    log.watch("_symtable")
    importlib.import_module("watched_space")
    importlib.reload(importlib.import_module("_symtable"))
    assert ("before", "watched_space") not in log


def test_forgotten(place, log):
    (place / "watched.py").write_text("")
    (place / "watched_too.py").write_text("")
    log.watch("watched")
    log.watch("watched_too")
    import_hook.unwatch("watched")
    importlib.import_module("watched")
    assert log == []
    import_hook.clear()
    importlib.import_module("watched_too")
    assert log == []
    assert not [finder for finder in sys.meta_path if isinstance(finder, import_hook.Finder)]
