"""MindSpore's own profiler starts only if the user requests it, or if we cannot record the NPU."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import PROGRAMS, ROOT, environment
from fakes_built import (
    ascend_fakes,  # noqa: F401
    attached as attached_to,
)
from ms_profiler import options
from ms_profiler.analysis.readers import store
from ms_profiler.job.devices import npu, survey
from ms_profiler.job.devices.survey import Finding
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
    """Return a function that runs a program in the test's folder."""
    return lambda *args, **extra: start(tmp_path, *args, **extra)


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """Return the folder and the finished process of a job that starts a subprocess and a spawn child."""
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
    """MindSpore's profiler analyses at exit, in spawned processes; each of these would start the profiler again."""
    folder, done = parent
    assert done.stdout.endswith("\nchild None\n0\n"), done.stderr
    assert len(list((folder / "data").iterdir())) == 1, "the child is part of its parent's run"


@pytest.mark.slow
def test_takeover_false_leaves_it_alone(python, tmp_path):
    done = python(
        "import mindspore\nprint(type(mindspore.profiler.EnvProfiler.profiler).__name__)",
        '{"start": true, "output_path": "data", "takeover": false, "analyse": "off"}',
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "Profile"


def test_a_spawn_child_alone_starts_no_chain_either(python, tmp_path):
    """The parent never imports MindSpore, and profiling is off."""
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


# -- with a made-up NPU: files like the driver's, and fake libraries


@pytest.fixture
def npu_job(job, ascend_fakes, tmp_path):  # noqa: F811
    """Return a function that trains with MindSpore; the network's cells launch kernels of the fake NPU."""
    env = attached_to(tmp_path) | {"LD_LIBRARY_PATH": str(ascend_fakes)}

    def run(words):
        return job(PROGRAMS / "npu_job.py", "plain", env=env | {"FAKE_MSPTI": words}, options={"analyse": "off"})

    return run


def of_ours(run):
    """Return the results that our recorder wrote."""
    return [result for result in run.results if (result / "FRAMEWORK" / "run_info.json").exists()]


def test_where_ours_can_record_the_npu_mindspores_own_profiler_does_not_start(npu_job):
    run = npu_job("")
    assert run.code == 0, run.err
    assert of_ours(run) == run.results
    recording = store.read(str(run.result))
    assert recording.info.device_sources == {"NPU": {"interface": "msPTI", "why": ""}}
    assert "MatMulV2" in set(recording.device.tasks["name"])


@pytest.mark.slow
def test_when_the_takeover_fails_mindspores_own_profiler_runs_and_our_spans_are_recorded(npu_job):
    run = npu_job("fails")
    assert run.code == 0, run.err
    (result,) = of_ours(run)
    (theirs,) = [other for other in run.results if other != result]
    assert (theirs / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").exists()
    recording = store.read(str(result))
    assert recording.device is None
    assert recording.steps.height == 3
    (why,) = {entry["why"] for entry in recording.info.not_collected if entry["what"] == "device records"}
    assert why == (
        "MindSpore's own profiler keeps running: an NPU is here, and msPTI, which would record it, is not usable: "
        "msptiSubscribe answered 999; its result is beside this one"
    )


# -- how the takeover decides, without an import of MindSpore


@pytest.fixture
def attached(tmp_path):
    """Make a device directory like that of Ascend's driver."""
    for name in ("davinci0", "davinci1", "davinci_manager", "null"):
        (tmp_path / name).touch()
    return str(tmp_path)


@pytest.fixture
def hidden(monkeypatch):
    """Return a function that returns the variable as MindSpore sees it, and why MindSpore's profiler is left on."""
    monkeypatch.setenv("MS_PROFILER_OPTIONS", "")
    monkeypatch.delenv("RANK_ID", raising=False)

    def look(value, counts=True, devices="/nowhere"):
        seen = {}
        monkeypatch.setattr(npu, "FOLDER", devices)
        os.environ["MS_PROFILER_OPTIONS"] = value
        takeover.install(counts)
        (watch,) = import_hook._watches[takeover.MODULE]
        watch.before(takeover.MODULE)
        seen = os.environ.get("MS_PROFILER_OPTIONS")
        watch.after(takeover.MODULE, None, 1, 2)
        assert os.environ["MS_PROFILER_OPTIONS"] == value
        return seen, takeover.left_running

    yield look
    import_hook.clear()


@pytest.mark.parametrize(
    "value", [ON, "[1]", "not json", "{}", '{"start": "false"}', '{"takeover": "x"}', "[" * 100_000]
)
def test_hidden_by_default(hidden, value):
    assert hidden(value) == (None, "")


@pytest.mark.parametrize("start", [True, False])
def test_left_alone_on_request(hidden, start):
    value = json.dumps({"start": start, "takeover": "false"})
    assert hidden(value) == (value, "takeover is false")


@pytest.fixture
def tried(monkeypatch):
    """Return a function that makes all interfaces unusable, and returns the list of interfaces tried since."""
    names = []

    def end(why):
        def find(interface, _):
            names.append(interface.name)
            return Finding(interface.name, interface.traces, why=why)

        monkeypatch.setattr(survey, "find", find)
        return names

    return end


def test_on_an_npu_mindspore_gets_the_options_as_we_parsed_them(hidden, attached, tried):
    value = '{"start": "true", "memory": true, "profiler_level": 1, "export_type": ["kineto"], "activities": "TPU"}'
    assert tried("there is none") == []
    seen, why = hidden(value, devices=attached)
    assert why == "an NPU is here, and aclprof, which would record it, is not usable: there is none"
    shown = json.loads(seen)
    assert shown["start"] is True
    assert shown["profile_memory"] is True
    assert shown["profiler_level"] == "Level1"
    assert shown["activities"] == ["CPU", "NPU"]
    assert shown["export_type"] == ["text"]


@pytest.mark.parametrize(("option", "interface"), [("l2_cache", "aclprof"), ("mstx", "msPTI")])
def test_on_an_npu_that_ours_can_record_it_is_hidden(hidden, attached, tried, option, interface):
    """We try only the interface that the options need."""
    names = tried("")
    assert hidden(json.dumps({"start": True, option: True}), devices=attached) == (None, "")
    assert names == [interface]


def test_on_an_npu_it_is_hidden_when_the_npu_is_not_requested(hidden, attached, tried):
    names = tried("there is none")
    assert hidden('{"start": true, "activities": ["CPU"]}', devices=attached) == (None, "")
    assert names == []


@pytest.mark.parametrize("value", ["{}", "[1]", '{"start": false}', '{"start": true, "ranks": "3"}'])
def test_on_an_npu_it_is_hidden_when_profiling_is_off(hidden, attached, value):
    assert hidden(value, devices=attached) == (None, "")


def test_on_an_npu_it_is_hidden_in_helpers_and_children(hidden, attached, monkeypatch):
    assert hidden(ON, counts=False, devices=attached) == (None, "")
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "spawn_main()", "--multiprocessing-fork"])
    assert hidden(ON, devices=attached) == (None, "")


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


def test_an_npu_is_known_by_its_device_files(attached, tmp_path):
    assert npu.count(attached) == 2
    assert npu.count(str(tmp_path / "none")) == 0
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "davinci_manager").touch()
    assert npu.count(str(tmp_path / "other")) == 0
