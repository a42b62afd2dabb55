"""MindSpore's own profiler: kept from starting, or left to itself where that is asked for or better."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import ROOT, environment
from ms_profiler import options
from ms_profiler.job.frameworks import import_hook
from ms_profiler.job.frameworks.mindspore import takeover

ON = '{"start": true}'
RECORDS = '{"start": true, "output_path": "data", "analyse": "off"}'


def start(folder, program, variable, **extra):
    """Run a program in `folder`."""
    path = folder / "program.py"
    path.write_text(textwrap.dedent(program))
    return subprocess.run(
        [sys.executable, path],
        env=environment(variable, PYTHONPATH=str(ROOT / "sitecustomize"), **extra),
        capture_output=True,
        text=True,
        timeout=180,
        cwd=folder,
        check=False,
    )


@pytest.fixture
def python(tmp_path):
    """Return a function that runs a program in the test's directory."""
    return lambda *args, **extra: start(tmp_path, *args, **extra)


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """A job with a subprocess and a spawn child: its folder, and what became of it."""
    folder = tmp_path_factory.mktemp("parent")
    program = """
        import multiprocessing, os, subprocess
        def work():
            import mindspore
            print("child", mindspore.profiler.EnvProfiler.profiler)
        if __name__ == "__main__":
            before = os.environ["MS_PROFILER_OPTIONS"]
            import mindspore
            print(mindspore.profiler.EnvProfiler.profiler, os.environ["MS_PROFILER_OPTIONS"] == before)
            print(subprocess.check_output(["printenv", "MS_PROFILER_OPTIONS"], text=True), end="", flush=True)
            child = multiprocessing.get_context("spawn").Process(target=work)
            child.start()
            child.join()
            print(child.exitcode)
        """
    return folder, start(folder, program, RECORDS, GLOG_v="4")


def test_it_does_not_start_and_the_variable_is_as_it_was(parent):
    _, done = parent
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"None True\n{RECORDS}\n")


def test_a_spawn_child_starts_no_chain_of_processes(parent):
    """MindSpore's profiler analyses at exit in spawned processes, each of which starts it again."""
    folder, done = parent
    assert done.stdout.endswith("\nchild None\n0\n"), done.stderr
    assert len(list((folder / "data").iterdir())) == 1, "the child is part of its parent's run"


def test_takeover_false_leaves_it_alone(python, tmp_path):
    done = python(
        "import mindspore\nprint(type(mindspore.profiler.EnvProfiler.profiler).__name__)",
        '{"start": true, "output_path": "data", "takeover": false, "analyse": "off"}',
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "Profile"


def test_a_spawn_child_alone_starts_no_chain_either(python, tmp_path):
    """Here the parent never imports MindSpore, and profiling is off."""
    done = python(
        """
        import multiprocessing
        def work():
            import mindspore
            print(mindspore.profiler.EnvProfiler.profiler)
        if __name__ == "__main__":
            child = multiprocessing.get_context("spawn").Process(target=work)
            child.start()
            child.join()
            print(child.exitcode)
        """,
        '{"start": "false", "output_path": "data"}',
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n0\n", "")
    assert not (tmp_path / "data").exists()


# -- what is decided, without an import of MindSpore


@pytest.fixture
def npu(tmp_path):
    """A device directory as Ascend's driver makes it."""
    for name in ("davinci0", "davinci1", "davinci_manager", "null"):
        (tmp_path / name).touch()
    return str(tmp_path)


@pytest.fixture
def hidden(monkeypatch):
    """Return a function that says what MindSpore would see of a value, and why."""
    monkeypatch.setenv("MS_PROFILER_OPTIONS", "")
    monkeypatch.delenv("RANK_ID", raising=False)

    def look(value, counts=True, devices="/nowhere"):
        seen = {}
        os.environ["MS_PROFILER_OPTIONS"] = value
        takeover.install(counts, devices)
        (watch,) = import_hook._watches[takeover.MODULE]
        watch.before(takeover.MODULE)
        seen = os.environ.get("MS_PROFILER_OPTIONS")
        watch.after(takeover.MODULE, None, 1, 2)
        assert os.environ["MS_PROFILER_OPTIONS"] == value
        return seen, takeover.kept

    yield look
    import_hook.clear()


@pytest.mark.parametrize(
    "value", [ON, "[1]", "not json", "{}", '{"start": "false"}', '{"takeover": "x"}', "[" * 100_000]
)
def test_hidden_by_default(hidden, value):
    assert hidden(value) == (None, "")


@pytest.mark.parametrize("start", [True, False])
def test_left_alone_if_asked_for(hidden, start):
    value = json.dumps({"start": start, "takeover": "false"})
    assert hidden(value) == (value, "takeover is false")


def test_on_an_npu_it_goes_on_with_what_we_understood(hidden, npu):
    value = '{"start": "true", "memory": true, "profiler_level": 1, "export_type": ["kineto"], "activities": "CPU"}'
    seen, why = hidden(value, devices=npu)
    assert why.startswith("an NPU is here")
    shown = json.loads(seen)
    assert shown["start"] is True
    assert shown["profile_memory"] is True
    assert shown["profiler_level"] == "Level1"
    assert shown["activities"] == ["CPU", "NPU"]
    assert shown["export_type"] == ["text"]


def test_on_an_npu_with_a_back_end_of_ours_it_is_hidden(hidden, npu, monkeypatch):
    monkeypatch.setattr(takeover, "usable_backend", lambda: True)
    assert hidden(ON, devices=npu) == (None, "")


@pytest.mark.parametrize("value", ["{}", "[1]", '{"start": false}', '{"start": true, "ranks": "3"}'])
def test_on_an_npu_it_is_hidden_where_nothing_is_to_be_profiled(hidden, npu, value):
    assert hidden(value, devices=npu) == (None, "")


def test_on_an_npu_it_is_hidden_in_helpers_and_children(hidden, npu, monkeypatch):
    assert hidden(ON, counts=False, devices=npu) == (None, "")
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "spawn_main()", "--multiprocessing-fork"])
    assert hidden(ON, devices=npu) == (None, "")


def test_an_error_of_ours_leaves_it_hidden(hidden, monkeypatch):
    def broken(_):
        raise ValueError("ours")

    monkeypatch.setattr(options, "parse", broken)
    os.environ["MS_PROFILER_OPTIONS"] = ON
    takeover.install(True)
    (watch,) = import_hook._watches[takeover.MODULE]
    with pytest.raises(ValueError, match="ours"):
        watch.before(takeover.MODULE)
    assert "MS_PROFILER_OPTIONS" not in os.environ
    watch.failed(takeover.MODULE)
    assert os.environ["MS_PROFILER_OPTIONS"] == ON


def test_an_npu_is_known_by_its_device_files(npu, tmp_path):
    assert takeover.has_npu(npu)
    assert not takeover.has_npu(str(tmp_path / "none"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "davinci_manager").touch()
    assert not takeover.has_npu(str(tmp_path / "other"))


def test_there_is_a_back_end_only_if_one_says_so(monkeypatch, tmp_path):
    (tmp_path / "watched_backend.py").write_text("import os\ndef usable(): return 'BACKEND' in os.environ")
    monkeypatch.syspath_prepend(tmp_path)
    assert not takeover.usable_backend()
    monkeypatch.setattr(takeover, "BACKENDS", ("watched_backend",))
    assert not takeover.usable_backend()
    monkeypatch.setenv("BACKEND", "1")
    assert takeover.usable_backend()
    sys.modules.pop("watched_backend")
