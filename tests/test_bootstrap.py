"""The profiler starts between the interpreter's start and the import of a framework, in training processes only."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import ROOT, environment

AGENT = ROOT / "agent"
ON = '{"start": true, "output_path": "data"}'
IMPORT = "import mindspore\nprint('loss', float(1.5).hex())"


@pytest.fixture
def python(tmp_path):
    """Return a function that runs a program in the test's directory, with the variable set.

    The program first activates the bootstrap of this checkout, not that of an installed version.
    """

    def run(program, *args, options=ON, **extra):
        path = tmp_path / "program.py"
        head = "import sys\nfrom ms_profiler.job import bootstrap\nbootstrap.activate()\n"
        path.write_text(head + textwrap.dedent(program))
        return subprocess.run(
            [sys.executable, "-B", "-S", "-c", _WITH_PACKAGES, str(AGENT), str(path), *args],
            env=environment(options, **extra),
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            check=False,
        )

    return run


#: Program that puts site-packages on the path without running its .pth files, and then runs another program.
_WITH_PACKAGES = f"""
import sys
sys.path += [sys.argv[1], *{[entry for entry in sys.path if entry.endswith("-packages")]!r}]
del sys.argv[:2]
sys.orig_argv = [sys.executable, *sys.argv]
exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"))
"""


def sampled(fast, *slow):
    """Return test values of which only the first is fast; faster tests without a job cover the others."""
    return [fast, *(pytest.param(value, marks=pytest.mark.slow) for value in slow)]


def ours(done):
    return [line for line in done.stderr.splitlines() if line.startswith("ms-profiler: ")]


def test_it_waits_with_one_finder_however_often_it_is_called(python):
    done = python("""
        from ms_profiler.job.frameworks import import_hook
        bootstrap.activate()
        bootstrap.activate()
        print(type(sys.meta_path[0]).__name__, sum(isinstance(f, import_hook.Finder) for f in sys.meta_path))
        print({name: len(watches) for name, watches in import_hook._watches.items()})
    """)
    assert done.stdout == "Finder 1\n{'mindspore': 1, 'torch': 1}\n"
    assert done.stderr == ""


@pytest.mark.parametrize("options", [None, ""])
def test_unset_it_does_nothing(python, options):
    extra = {} if options is None else {"MS_PROFILER_OPTIONS": ""}
    done = python(
        "from ms_profiler.job import origin; print(type(sys.meta_path[0]).__name__, origin.directory)",
        options=None,
        **extra,
    )
    assert "Finder" not in done.stdout
    assert done.stderr == ""


def test_it_imports_nothing_that_costs(python):
    costly = (
        "json",
        "typing",
        "dataclasses",
        "collections",
        "importlib.util",
        "importlib.abc",
        "threading",
        "re",
        "enum",
    )
    done = python(f"print([name for name in {costly!r} if name in sys.modules])")
    assert done.stdout == "[]\n"


def test_where_it_started_is_remembered(python, tmp_path):
    done = python("import os; os.chdir('/'); from ms_profiler.job import origin; print(origin.directory)")
    assert done.stdout == f"{tmp_path}\n"


def test_an_error_of_ours_does_not_reach_the_job(python):
    program = """
        from ms_profiler.job import helper
        bootstrap._active = False
        def broken(_):
            raise SystemExit("ours")
        helper.is_tool = broken
        bootstrap.activate()
        print("on")
    """
    done = python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")
    done = python(program, MS_PROFILER_RAISE="1")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "ours\n")


FRAMEWORK = """
from ms_profiler.job import collection
collection.framework_imported = lambda name, module, start, end: print(name, module.__name__, 0 < start < end)
import mindspore
"""


def test_the_session_learns_of_the_framework(python):
    done = python(FRAMEWORK)
    assert (done.returncode, done.stdout) == (0, "mindspore mindspore True\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("role", ["MS_SCHED", "MS_WORKER"])
def test_a_scheduler_is_no_job_and_mindspore_keeps_still_in_it(python, tmp_path, role):
    """msrun runs the same script as its scheduler, with the rank of the first worker."""
    program = FRAMEWORK + "print(mindspore.profiler.EnvProfiler.profiler, os.environ['MS_PROFILER_OPTIONS'] != '')"
    done = python("import os" + program, MS_ROLE=role, RANK_ID="0")
    framework = [] if role == "MS_SCHED" else ["mindspore mindspore True"]
    assert done.stdout.splitlines() == [*framework, "None True"], done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("value", ["[1]", *sampled('"str"', "not json", "[]", '{"strat": true}', "[" * 100_000)])
def test_a_bad_value_costs_one_line_and_no_job(python, tmp_path, value):
    """Without ms-profiler, MindSpore crashes if the value is a list or a text."""
    done = python(IMPORT, options=value)
    assert (done.returncode, done.stdout) == (0, "loss 0x1.8000000000000p+0\n"), done.stderr
    (line,) = ours(done)
    assert len(line) < 250
    assert done.stderr == line + "\n"
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("value", sampled('{"start": "false"}', "{}", '{"start": false}', '{"output_path": "data"}'))
def test_switched_off_it_prints_nothing(python, tmp_path, value):
    done = python(IMPORT + "\nprint(mindspore.profiler.EnvProfiler.profiler)", options=value)
    assert (done.returncode, done.stdout, done.stderr) == (0, "loss 0x1.8000000000000p+0\nNone\n", "")
    assert not (tmp_path / "data").exists()


def test_bad_options_are_a_line_each_and_profiling_continues(python, tmp_path):
    options = {
        "start": 1,
        "output_path": str(tmp_path / "data"),
        "exit_timeout": "soon",
        "ranks": {},
        "oputput_path": "x",
        "analyse": "off",
        "profiler_level": "a\0b",
    }
    done = python(IMPORT, options=json.dumps(options))
    assert (done.returncode, done.stdout) == (0, "loss 0x1.8000000000000p+0\n")
    lines = ours(done)
    assert [line.split()[1] for line in lines[:5]] == ["start", "exit_timeout", "ranks", "unknown", "profiler_level"]
    assert len(lines) == 7, "and one at the start, one at the end"
    assert len(list((tmp_path / "data").iterdir())) == 1


@pytest.mark.parametrize("path", sampled("link", "/dev/null/data", "a\0b", "\ud800"))
def test_an_output_path_that_cannot_be_written(python, tmp_path, path):
    (tmp_path / "temporary").mkdir()
    (tmp_path / "link").symlink_to("temporary")
    options = json.dumps({"start": True, "output_path": path, "analyse": "off"})
    done = python(IMPORT, options=options, TMPDIR=str(tmp_path / "temporary"))
    assert (done.returncode, done.stdout) == (0, "loss 0x1.8000000000000p+0\n")
    assert len(ours(done)) == 3
    place = tmp_path / ("data" if "\0" in path else "temporary")  # NUL is invalid: the default path
    assert len(list(place.glob("*_ascend_ms"))) == 1
    if place.name == "temporary":
        assert str(place) in ours(done)[0]
        assert ours(done)[0].startswith("ms-profiler: cannot write to output_path ")


def test_nowhere_to_write_is_one_line_and_off(python):
    done = python(IMPORT, options='{"start": true, "output_path": "/dev/null/data"}', TMPDIR="/dev/null/temporary")
    assert (done.returncode, done.stdout) == (0, "loss 0x1.8000000000000p+0\n")
    (line,) = ours(done)
    assert line.endswith("profiling is off")


def test_a_relative_output_path_is_where_the_job_was_started(python, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    options = '{"start": true, "output_path": "data", "analyse": "off"}'
    done = python("import os\nos.chdir('elsewhere')\n" + IMPORT, options=options)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "data").iterdir())) == 1


def test_a_framework_imported_before_is_reported_late(python):
    program = """
        import os
        import mindspore
        os.environ["MS_PROFILER_OPTIONS"] = '{"start": true}'
        from ms_profiler.job import collection
        collection.framework_imported = lambda name, module, start, end: print(name, module is mindspore, start, end)
        bootstrap.activate()
    """
    done = python(program, options=None)
    assert done.stdout == "mindspore True 0 0\n", done.stderr


#: Module that the fork server loads first. It notes the frameworks that the bootstrap reports to the session.
REPORTER = """
import os
from ms_profiler.job import collection

def report(name, module, start, end):
    with open(os.environ["NOTES"], "a") as stream:
        stream.write("%s %s %s\\n" % (os.getpid(), name, "late" if end == 0 else "seen"))

collection.framework_imported = report
"""
FORK_SERVER = """
import multiprocessing, os

def work(queue):
    import mindspore
    queue.put((os.getpid(), mindspore.profiler.EnvProfiler.profiler is None))

if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(os.environ["PRELOAD"].split())
    queue = context.Queue()
    child = context.Process(target=work, args=(queue,))
    child.start()
    print(*queue.get(timeout=60))
    child.join()
"""


@pytest.mark.parametrize(("preload", "when"), [("reporter", "seen"), ("reporter mindspore", "late")])
def test_a_child_of_a_fork_server_counts_but_not_the_server(tmp_path, preload, when):
    """The fork server imports the framework for its children, or each child does."""
    (tmp_path / "notes").write_text("")
    (tmp_path / "reporter.py").write_text(REPORTER)
    (tmp_path / "program.py").write_text(FORK_SERVER)
    done = subprocess.run(
        [sys.executable, "program.py"],
        env=environment(
            ON,
            PYTHONPATH=os.pathsep.join([str(ROOT / "sitecustomize"), str(tmp_path)]),
            NOTES=str(tmp_path / "notes"),
            PRELOAD=preload,
        ),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        check=False,
    )
    child, quiet = done.stdout.split()
    assert (quiet, done.stderr) == ("True", "")
    assert (tmp_path / "notes").read_text() == f"{child} mindspore {when}\n"


def test_nothing_is_recorded_in_another_interpreter_of_the_process(python, tmp_path):
    (tmp_path / "mindspore").mkdir()
    (tmp_path / "mindspore" / "__init__.py").write_text("value = 5")
    done = python(
        """
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        code = '''
        import sys
        sys.path[:0] = {path!r}
        sys.orig_argv = {command!r}
        from ms_profiler.job import bootstrap
        bootstrap.activate()
        import mindspore
        print(mindspore.value, "ms_profiler.job.collection" in sys.modules, flush=True)
        '''
        import textwrap
        code = textwrap.dedent(code).format(path=[".", *sys.path], command=sys.orig_argv)
        inner = interpreters.create()
        interpreters.run_string(inner, code)
        interpreters.destroy(inner)
        print("ms_profiler.job.collection" in sys.modules)
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "5 False\nFalse\n", "")
    assert not (tmp_path / "data").exists()
