"""The profiler starts with the interpreter, through PYTHONPATH or installed files, with any other start-up code."""

import ast
import json
import os
import signal
import subprocess
import sys
import zipapp
from pathlib import Path

import pytest
from conftest import ROOT, environment

SITE = ROOT / "sitecustomize"
ON = '{"start": true}'
#: Prints everything that a start of the profiler could change in a process, for comparison.
SNAPSHOT = """
import sys, os, signal, json
fds = sorted(os.listdir("/proc/self/fd"))[:-1]
tasks = len(os.listdir("/proc/self/task"))
handlers = [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())]
finders = [str(finder) for finder in sys.meta_path]
hooks = [str(hook) for hook in (sys.excepthook, sys.displayhook, sys.unraisablehook, sys.gettrace(), sys.getprofile())]
print(json.dumps([sorted(sys.modules), sys.path, finders, handlers, tasks, fds, hooks, dict(os.environ)]))
"""
ACTIVE = "import sys; print('ms_profiler.job.bootstrap' in sys.modules)"


def start(*args, options=ON, path=(SITE,), python=sys.executable, **extra):
    """Run an interpreter with the options and our start files, as a user would."""
    if path:
        extra["PYTHONPATH"] = os.pathsep.join(map(str, path))
    keywords = {"input": extra.pop("stdin")} if "stdin" in extra else {"stdin": subprocess.DEVNULL}
    return subprocess.run(
        [python, "-B", *map(str, args)],
        env=environment(options, **extra),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
        **keywords,
    )


def outcome(done):
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return an interpreter without our files: a virtual environment with only an empty file.

    Most environments have a .pth file. From Python 3.13 on, the first one makes the interpreter load a codec.
    """
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "nothing.pth").write_text("# nothing\n")
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return an interpreter with the files that our installation puts into site-packages."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in ("ms_profiler.pth", "ms_profiler.start", "ms_profiler_start.py"):
        (packages / name).write_text((SITE / name).read_text())
    (packages / "ms_profiler").symlink_to(ROOT / "agent" / "ms_profiler")
    return folder / "bin" / "python"


# -- the variable is unset


@pytest.mark.parametrize("options", [None, ""])
def test_unset_through_pythonpath_nothing_is_different(bare, options):
    extra = {} if options is None else {"MS_PROFILER_OPTIONS": ""}
    without = start("-c", SNAPSHOT, options=None, path=(), python=bare, PYTHONPATH="/nowhere", **extra)
    ours = start("-c", SNAPSHOT, options=None, path=(SITE, "/nowhere"), python=bare, **extra)
    expected, found = json.loads(without.stdout), json.loads(ours.stdout)
    assert found[-1].pop("PYTHONPATH") == f"{SITE}{os.pathsep}{expected[-1].pop('PYTHONPATH')}"
    assert found == expected
    assert ours.stderr == ""


def test_unset_and_installed_nothing_is_different(bare, installed):
    without = json.loads(start("-c", SNAPSHOT, options=None, path=(), python=bare).stdout)
    with_ours = json.loads(start("-c", SNAPSHOT, options=None, path=(), python=installed).stdout)
    allowed = {"ms_profiler_start"} if sys.version_info >= (3, 15) else set()
    assert set(with_ours[0]) - set(without[0]) <= allowed
    moved = [entry.replace(str(bare.parent.parent), str(installed.parent.parent)) for entry in without[1]]
    assert with_ours[1:] == [moved, *without[2:]]


# -- the variable is set


def test_set_only_the_import_hook_and_what_it_needs_are_imported(bare):
    without = json.loads(start("-c", SNAPSHOT, options=None, path=(), python=bare).stdout)
    ours = json.loads(start("-c", SNAPSHOT, python=bare).stdout)
    assert set(ours[0]) - set(without[0]) == {
        "ms_profiler",
        "ms_profiler.clock",
        "ms_profiler.job",
        "ms_profiler.job.bootstrap",
        "ms_profiler.job.frameworks",
        "ms_profiler.job.frameworks.import_hook",
        "ms_profiler.job.helper",
        "ms_profiler.job.origin",
        "ms_profiler.paths",
    }
    assert ours[1] == without[1]
    assert ours[3:7] == without[3:7]
    assert len(ours[2]) == len(without[2]) + 1


def test_installed_and_on_the_path_it_is_one_activation(installed):
    program = """
import sys
from ms_profiler.job.frameworks import import_hook
print(sum(isinstance(finder, import_hook.Finder) for finder in sys.meta_path), len(import_hook._watches["mindspore"]))
"""
    assert start("-c", program, python=installed).stdout == "1 1\n"


@pytest.mark.parametrize(
    "value", ["", "not json", "[]", "[1]", '"str"', "1e999", "{}", '{"start": 1}', '{"start":true,"zzz":"\\u0000"}']
)
def test_no_value_is_reported_before_a_framework_is_imported(value):
    done = start("-c", "import sys; print(1); sys.exit(3)", options=value)
    assert outcome(done) == (3, "1\n", "")


def test_a_huge_value_is_no_trouble():
    assert outcome(start("-c", "print(1)", options='{"start": true, "x": "' + "x" * 130_000 + '"}')) == (0, "1\n", "")


# -- ways to start an interpreter


@pytest.mark.parametrize(
    ("flags", "through_path", "through_files"),
    [
        ([], True, True),
        (["-s"], True, True),
        (["-u", "-O"], True, True),
        (["-E"], False, True),
        (["-I"], False, True),
        (["-S"], False, False),
        pytest.param(
            ["-P"], True, True, marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="-P came with 3.11")
        ),
    ],
)
def test_flags_of_the_interpreter(bare, installed, flags, through_path, through_files):
    assert start(*flags, "-c", ACTIVE, python=bare).stdout == f"{through_path}\n"
    assert start(*flags, "-c", ACTIVE, path=(), python=installed).stdout == f"{through_files}\n"


@pytest.mark.parametrize("form", ["script", "module", "package", "stdin", "zipapp", "code"])
def test_forms_of_a_program(bare, installed, tmp_path, form):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__main__.py").write_text(ACTIVE)
    zipapp.create_archive(package, tmp_path / "app.pyz")
    args, extra = {
        "script": ([package / "__main__.py"], {}),
        "module": (["-m", "package.__main__"], {}),
        "package": (["-m", "package"], {}),
        "stdin": (["-"], {"stdin": ACTIVE}),
        "zipapp": ([tmp_path / "app.pyz"], {}),
        "code": (["-c", ACTIVE], {}),
    }[form]
    assert start(*args, path=(SITE, tmp_path), python=bare, **extra).stdout == "True\n"
    assert start(*args, path=(tmp_path,), python=installed, **extra).stdout == "True\n"


# -- the sitecustomize that ours hides

THEIRS = {
    "module": {"sitecustomize.py": "print('theirs')"},
    "package": {"sitecustomize/__init__.py": "print('theirs', __path__ is not None)"},
    "error": {"sitecustomize.py": "print('theirs'); raise RuntimeError('of theirs')"},
    "import error": {"sitecustomize.py": "print('theirs'); import no_such_module"},
    "syntax error": {"sitecustomize.py": "print('theirs'"},
    "exit": {"sitecustomize.py": "print('theirs'); raise SystemExit(3)"},
    "path": {"sitecustomize.py": "import sys; sys.path.insert(0, '/added')"},
    "both": {"sitecustomize.py": "print('theirs')", "usercustomize.py": "print('the user')"},
}


@pytest.mark.parametrize("form", [*THEIRS, "bytecode"])
@pytest.mark.parametrize("options", [None, ON])
def test_another_sitecustomize_runs_as_it_would(bare, tmp_path, form, options):
    if form == "bytecode":
        source = tmp_path / "source.py"
        source.write_text("print('theirs')")
        compiling = (
            f"import py_compile; py_compile.compile({str(source)!r}, cfile={str(tmp_path / 'sitecustomize.pyc')!r})"
        )
        subprocess.run([bare, "-c", compiling], check=True)
    else:
        for name, text in THEIRS[form].items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
    program = "import sys; module = sys.modules.get('sitecustomize'); print(module and module.__file__, sys.path)"
    without = start("-c", program, options=options, path=(tmp_path,), python=bare)
    ours = start("-c", program, options=options, path=(SITE, tmp_path), python=bare)
    assert outcome(ours)[:2] == outcome(without)[:2]
    if form != "exit":  # the interpreter then prints a traceback, in which our file has a frame
        assert ours.stderr == without.stderr


def test_another_sitecustomize_runs_though_ours_failed(bare, tmp_path):
    """Our sitecustomize fails because a module that it imports is broken."""
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    (tmp_path / "ms_profiler").mkdir()
    (tmp_path / "ms_profiler" / "__init__.py").write_text("raise SystemExit('broken')")
    assert outcome(start("-c", "print(1)", path=(SITE, tmp_path), python=bare)) == (0, "theirs\n1\n", "")
    done = start("-c", "print(1)", path=(SITE, tmp_path), python=bare, MS_PROFILER_RAISE="1")
    assert done.returncode != 0


def test_another_sitecustomize_may_set_the_variable(bare, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(f"import os; os.environ['MS_PROFILER_OPTIONS'] = {ON!r}")
    assert start("-c", ACTIVE, options=None, path=(SITE, tmp_path), python=bare).stdout == "True\n"


def test_two_copies_of_ours_are_one(bare, tmp_path):
    (tmp_path / "sitecustomize.py").write_text((SITE / "sitecustomize.py").read_text())
    program = "import sys; print(len([f for f in sys.meta_path if 'ms_profiler' in type(f).__module__]), sys.path[1:3])"
    without = start("-c", "import sys; print(1, sys.path[1:3])", options=None, path=(), python=bare).stdout
    assert start("-c", program, path=(SITE, tmp_path, SITE), python=bare).stdout == without


# -- remains of an installation, and other Pythons


@pytest.mark.parametrize("kept", [[], ["ms_profiler_start.py"]])
def test_files_left_behind_are_harmless(bare, tmp_path, kept):
    """Files that an uninstallation missed do no harm."""
    for name in ["ms_profiler.pth", "ms_profiler.start", *kept]:
        (tmp_path / name).write_text((SITE / name).read_text())
    program = f"import site; site.addsitedir({str(tmp_path)!r}); print(1)"
    assert outcome(start("-c", program, path=(), python=bare)) == (0, "1\n", "")


def test_a_broken_installation_is_harmless(bare, tmp_path):
    for name in ("ms_profiler.pth", "ms_profiler.start", "ms_profiler_start.py"):
        (tmp_path / name).write_text((SITE / name).read_text())
    (tmp_path / "ms_profiler").mkdir()
    (tmp_path / "ms_profiler" / "__init__.py").write_text("raise SystemExit('broken')")
    program = f"import site; site.addsitedir({str(tmp_path)!r}); print(1)"
    assert outcome(start("-c", program, path=(), python=bare)) == (0, "1\n", "")


def test_the_installed_line_is_one_line():
    (line,) = (SITE / "ms_profiler.pth").read_text().splitlines()
    assert line.startswith("import ")  # only such lines of a .pth file are executed
    module, function = (SITE / "ms_profiler.start").read_text().strip().split(":")
    tree = ast.parse((SITE / f"{module}.py").read_text())
    assert function in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert len((SITE / f"{module}.py").read_text().splitlines()) < 20


def test_the_files_read_as_old_python():
    """The files parse as old Python, because an interpreter of any version may find them on its path."""
    for name in ("sitecustomize.py", "ms_profiler_start.py"):
        text = (SITE / name).read_text()
        assert text.isascii()
        ast.parse(text, feature_version=(3, 4))
    assert len((SITE / "sitecustomize.py").read_text().splitlines()) < 60


def interpreters(condition):
    """Return the interpreters of this machine whose `sys` fulfils a condition."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob("*/bin/python")
    found = {Path(folder, name) for folder in os.get_exec_path() for name in ("python2", "python2.7")}
    found |= {Path(folder, f"python3.{minor}") for folder in os.get_exec_path() for minor in range(6, 15)}
    for path in sorted({path.resolve() for path in {*found, *versions} if path.exists()}):
        command = [path, "-c", f"import sys; print({condition})"]
        report = subprocess.run(command, capture_output=True, text=True, check=False)
        if report.stdout == "True\n":
            yield path


def test_a_foreign_interpreter_takes_no_notice(tmp_path):
    """This test needs old interpreters on the machine; another test parses the files as old Python."""
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    program = "import sys; print([name for name in sys.modules if 'ms_profiler' in name])"
    for python in interpreters("sys.version_info < (3, 10)"):
        assert outcome(start("-c", program, path=(SITE, tmp_path), python=python)) == (0, "theirs\n[]\n", ""), python
        assert outcome(start("-c", program, path=(SITE,), python=python)) == (0, "[]\n", ""), python


#: Imports frameworks in each kind of interpreter of the process, and prints what of ours is there.
INNER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = '''
import sys
import torch
try:
    import mindspore
except ZeroDivisionError:
    pass
ours = {name for name in sys.modules if name.startswith("ms_profiler.")} - %r
watched = any(type(finder).__module__.startswith("ms_profiler") for finder in sys.meta_path)
print(sorted(ours), watched, flush=True)
'''
before = {name for name in sys.modules if name.startswith("ms_profiler.")}
for kind in ("legacy", "isolated"):
    inner = interpreters.create(kind) if sys.version_info >= (3, 13) else interpreters.create(isolated=kind != "legacy")
    interpreters.run_string(inner, code % before)
    interpreters.destroy(inner)
print(any(type(finder).__module__.startswith("ms_profiler") for finder in sys.meta_path))
"""


def test_other_interpreters_of_the_process_have_no_hook(tmp_path):
    (tmp_path / "torch.py").write_text("")
    (tmp_path / "mindspore.py").write_text("1 / 0")
    for python in (sys.executable, *interpreters("(3, 10) <= sys.version_info < (3, 15)")):
        done = start("-c", INNER, path=(SITE, tmp_path), python=python)
        assert outcome(done) == (0, "[] False\n[] False\nTrue\n", ""), python


# -- processes that are not the job

#: A sitecustomize of a test. When its process ends, it notes whether our import hook was there.
SPY = """
import atexit, os, sys
def note():
    watched = any(type(finder).__module__.endswith(".import_hook") for finder in sys.meta_path)
    with open(os.environ["SPY"], "a") as stream:
        stream.write("%s %s\\n" % (watched, " ".join(sys.orig_argv[1:]).replace("\\n", " ")))
atexit.register(note)
"""


@pytest.fixture
def spied(tmp_path):
    """Return a function that runs a program and returns a line per process: was our hook there, and its arguments."""
    (tmp_path / "spy").mkdir()
    (tmp_path / "spy" / "sitecustomize.py").write_text(SPY)

    def run(*args):
        notes = tmp_path / "notes"
        notes.write_text("")
        done = start(*args, path=(SITE, tmp_path / "spy"), SPY=str(notes))
        assert done.returncode == 0, done.stderr
        return notes.read_text().splitlines()

    return run


def test_the_spy_sees_the_job(spied):
    assert spied("-c", "pass") == ["True -B -c pass"]


@pytest.mark.parametrize(
    "args", [["-m", "pip", "--version"], ["-m", "py_compile", __file__], ["-m", "compileall", "-q"]]
)
def test_tools_are_left_alone(spied, tmp_path, args):
    if args[1] == "compileall":
        args = [*args, str(tmp_path)]
    notes = spied(*args)
    assert len(notes) == 1
    assert notes[0].startswith("False ")


@pytest.mark.parametrize("name", ["pip3.11", "conda", "ninja", "gcc", "c++-12", "ms-profiler"])
def test_programs_of_tools_are_left_alone(spied, tmp_path, name):
    (tmp_path / name).write_text("print(1)")
    assert spied(tmp_path / name) == [f"False -B {tmp_path / name}"]


def test_the_tracker_of_multiprocessing_is_left_alone(spied, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing\n"
        "def work(): pass\n"
        "if __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    child.start(); child.join()\n"
        "    from multiprocessing import resource_tracker as tracker\n"
        "    import os\n"
        "    pid = tracker._resource_tracker._pid\n"
        "    os.close(tracker._resource_tracker._fd)\n"
        "    os.waitpid(pid, 0)\n"
        "    tracker._resource_tracker._pid = tracker._resource_tracker._fd = None\n"
    )
    notes = {line.split(" ", 1)[1]: line.split(" ", 1)[0] for line in spied(program)}
    (tracker,) = [seen for what, seen in notes.items() if "resource_tracker" in what]
    assert tracker == "False"
    assert notes[f"-B {program}"] == "True"


# -- ways to end

ENDINGS = {
    "return": "print('out')",
    "sys.exit(5)": "import sys; print('out'); sys.exit(5)",
    "sys.exit(text)": "import sys; sys.exit('text')",
    "exception": "print('out'); 1 / 0",
    "failed import": "import no_such_module_at_all",
    "SystemExit in a thread": (
        "import threading, sys; t = threading.Thread(target=sys.exit, args=(9,)); t.start(); t.join(); print('out')"
    ),
    "exception in a thread": "import threading; t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()",
    "os._exit": "import os; print('out', flush=True); os._exit(7)",
    "abort": "import os; os.abort()",
    "atexit that exits": "import atexit, sys; atexit.register(sys.exit, 7)",
    "exec": "import os; os.execvp('sh', ['sh', '-c', 'echo out; exit 4'])",
    **{
        name: f"import os, signal; print('out', flush=True); os.kill(os.getpid(), signal.{name}); signal.pause()"
        for name in ("SIGTERM", "SIGINT", "SIGKILL", "SIGUSR1", "SIGSEGV")
    },
    # A job below nohup ignores SIGHUP from its start, so the program sets the default again.
    "SIGHUP": (
        "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); print('out', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGHUP); signal.pause()"
    ),
    "handler": (
        "import os, signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(6)); os.kill(os.getpid(), 15)"
    ),
    "asyncio": (
        "import asyncio, os, signal\n"
        "async def main():\n"
        "    asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)\n"
        "    await asyncio.sleep(30)\n"
        "asyncio.run(main())"
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_program_ends_as_it_would(bare, tmp_path, name):
    program = tmp_path / "program.py"
    program.write_text(ENDINGS[name])

    def ending(**keywords):
        done = start(program, python=bare, **keywords)
        # digits are left out: addresses and process numbers differ between any two runs
        return done.returncode, done.stdout, "".join(sign for sign in done.stderr if not sign.isdigit())

    without = ending(options=None, path=())
    assert ending() == without
    if name.startswith("SIG") and name != "SIGINT":
        assert without[0] == -getattr(signal, name)
