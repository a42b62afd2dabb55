"""ms-profiler watches dataset pipelines at the right time, and uses MindSpore's dataset profiler without harm."""

import atexit
import csv
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import PROGRAMS, environment, eventually
from ms_profiler.job.frameworks.mindspore import pipeline, sampling_plan
from ms_profiler.job.frameworks.mindspore.pipeline import PipelineStream
from ms_profiler.job.guard import Guard

PROGRAM = PROGRAMS / "pipelines.py"
OPTIONS = {"data_process": True}
#: program that lets MindSpore's own analyser read a window; its arguments are the folder and the output
ANALYSER = """
import sys
from mindspore.profiler.analysis.parser.ms_minddata_parser import MindDataParser
from mindspore.profiler.analysis.viewer import ms_minddata_viewer as viewer
from mindspore.profiler.common.log import ProfilerLogger
folder, output = sys.argv[1:]
ProfilerLogger.init(output)
options = dict(rank_id=0, device_id=0, activities=["NPU"], framework_path=folder, ascend_profiler_output_path=output,
               ascend_ms_dir=output)
viewer.MindDataPipelineRawViewer(**options).save(MindDataParser(**options)._parse({}))
viewer.MindDataPiplineSummaryViewer(**options).save(MindDataParser(**options)._parse({}))
"""


def folders(result):
    return sorted(result.glob("FRAMEWORK/process_*/pipelines/*"))


def lines(path):
    with open(path, newline="") as stream:
        return list(csv.reader(stream))


@pytest.mark.slow
def test_the_slow_operator_is_named_and_a_pipeline_ahead_is_acquitted(job):
    run = job(PROGRAM, "train", options=OPTIONS, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    assert run.out == "524800.0\n524800.0\n1280800\n"
    assert run.err.count("\n") == len(run.lines) == 2, run.err
    shown = {item["number"]: item for item in run.summary["dataset_pipelines"]}
    assert sorted(shown) == [0, 1] and shown[0]["windows"] == 2 and shown[1]["windows"] == 1
    assert shown[0]["bottleneck"]["operator"] == "Map(id=1)", shown[0]
    assert shown[1]["bottleneck"]["operator"] is None, shown[1]
    assert [item["name"] for item in shown[0]["operators"]] == ["Batch(id=0)", "Map(id=1)", "Generator(id=2)"]
    assert shown[0]["batches"] == 2 * 63  # of the 64 batches of each epoch, the first one does not count
    assert shown[0]["operators"][1]["cpu_percent"] > shown[0]["operators"][2]["cpu_percent"]
    (advice,) = [item for item in run.summary["advice"] if item["what"] == "data"]
    assert "Map(id=1)" in advice["evidence"] and "Map(id=1)" in advice["action"]
    assert run.summary["not_collected"] == []
    output = run.result / "ASCEND_PROFILER_OUTPUT"
    table = {key: values for key, *values in lines(output / "minddata_pipeline_summary_0.csv")}
    first = run.summary["dataset_pipelines"][0]
    assert table["pipeline_ops"] == [item["name"] for item in first["operators"]]
    names = sorted(path.name for folder in folders(run.result) for path in folder.iterdir())
    assert len(names) == 9 and names[0] == "dataset_iterator_profiling_0.txt"
    assert {path.stat().st_mode & 0o777 for folder in folders(run.result) for path in folder.iterdir()} == {0o640}


@pytest.mark.slow
def test_the_tables_are_those_of_mindspores_analyser(job, tmp_path):
    run = job(PROGRAM, "source", options=OPTIONS)
    assert run.code == 0, run.err
    (folder,) = folders(run.result)
    theirs, ours = tmp_path / "theirs", run.result / "ASCEND_PROFILER_OUTPUT"
    theirs.mkdir()
    command = [sys.executable, "-c", ANALYSER, str(folder), str(theirs)]
    subprocess.run(command, env=environment(), check=True, capture_output=True, cwd=tmp_path)
    name = "minddata_pipeline_raw_0.csv"
    assert lines(ours / name) == lines(theirs / name)
    name = "minddata_pipeline_summary_0.json"
    mine, other = (json.loads((place / name).read_text()) for place in (ours, theirs))
    assert list(mine) == list(other)
    differing = {key for key in mine if mine[key] != other[key]}
    assert differing <= {
        "avg_cpu_pct",  # MindSpore counts a first sample, before which it measured nothing
        "avg_cpu_pct_per_worker",
        "per_batch_time",  # MindSpore's figure contains the waits
        "cpu_analysis_details",  # the texts have other words
        "queue_analysis_details",
        "bottleneck_warning",  # MindSpore names the operator that waits for the slow source
        "bottleneck_suggestion",
    }
    for key in ("cpu_analysis_details", "queue_analysis_details"):
        assert [line.count("(id=") for line in mine[key]] == [line.count("(id=") for line in other[key]]
    assert mine["bottleneck_warning"] == ["Generator(id=2)"]


@pytest.mark.slow
def test_pipelines_beside_and_inside_others_do_no_harm(job):
    """MindSpore does not warn of these pipelines on stderr. A pipeline that is still open does not disturb the exit."""
    run = job(PROGRAM, "beside", options=OPTIONS, env={"GLOG_v": "2", "MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    assert run.out == "done\n"
    assert run.err.count("\n") == len(run.lines) == 2, run.err
    assert "another one lives" in json.dumps(run.summary["not_collected"])
    assert len(folders(run.result)) > 2


@pytest.mark.slow
def test_a_killed_job_names_its_missing_pipelines(tmp_path):
    options = OPTIONS | {"start": True, "output_path": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), "forever"],
        env=environment(options),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGKILL)
    (result,) = tmp_path.glob("*_ascend_ms")
    subprocess.run([sys.executable, "-m", "ms_profiler", "analyse", str(result)], env=environment(), check=True)
    summary = json.loads((result / "summary.json").read_text())
    (lost,) = [item for item in summary["completeness"]["lost_windows"] if "dataset" in item["what"]]
    assert "before MindSpore wrote them" in lost["what"]
    assert summary["dataset_pipelines"] == []
    assert not list(result.glob("ASCEND_PROFILER_OUTPUT/minddata*"))


class Manager:
    """Stand in for MindSpore's dataset profiler, and check that its rules are kept."""

    def __init__(self):
        self.calls = []
        self.on = False

    def init(self):
        assert not self.on, "MindSpore refuses to set it up while it is on"
        self.calls.append("init")

    def start(self):
        assert not self.on
        self.on = True
        self.calls.append("start")

    def stop(self):
        assert self.on, "MindSpore warns of a second stop on stderr"
        self.on = False
        self.calls.append("stop")

    def save(self, folder):
        assert not self.on, "saved while samples were taken"
        self.calls.append("save")
        (Path(folder) / "pipeline_profiling_0.json").write_text("{}")


class Recorder:
    """Stand in for a recorder and keep the marks."""

    def __init__(self):
        self.marks = []
        self.spent = 0

    def spend(self, size):
        self.spent += size

    def now(self):
        return 0

    def intern(self, name):
        return name

    def record(self, kind, category, flags, name, start, end, arg):
        self.marks.append((name, arg))


class Dataset:
    """Stand in for the dataset of an iterator."""


class Iterator:
    """Stand in for an iterator whose pipeline has a thread."""

    def build(self, dataset=None):
        self.thread = threading.Event()
        threading.Thread(target=self.thread.wait, daemon=True).start()

    def fail(self, dataset=None):
        raise RuntimeError("no such files")

    def stop(self):
        self.thread.set()


def failed(what, reason):
    raise AssertionError(what) from reason


class Stage:
    """The code under test with stand-ins for its surroundings."""

    def __init__(self, folder):
        config = SimpleNamespace(get_enable_autotune=lambda: False, get_debug_mode=lambda: False)
        self.config, self.refused = config, []
        options = SimpleNamespace(data_process=True, anonymize=False)
        recording = SimpleNamespace(options=options, not_collected=lambda what, why: self.refused.append((what, why)))
        self.session = SimpleNamespace(
            recordings=[recording],
            home=SimpleNamespace(folder=str(folder)),
            steps=SimpleNamespace(recording=True, next_look=99),
            limit=2 * 10**9,
            recorder=Recorder(),
            owner=True,
            forked=False,
            guard=lambda what: Guard(failed, what),
            asks=lambda option: getattr(options, option),
        )
        self.manager, self.options = Manager(), options
        self.stream = PipelineStream(self.session, self.manager, Manager.init)

    def build(self, dataset=None):
        iterator = Iterator()
        self.stream.create(iterator.build, iterator, (dataset or Dataset(),), {})
        return iterator

    def close(self, iterator):
        self.stream.close(iterator.stop, iterator, (), {})

    def taken(self):
        """Return the calls of the dataset profiler since the last call of this method, as one text."""
        calls, self.manager.calls = self.manager.calls, []
        return " ".join(calls)


@pytest.fixture
def stage(tmp_path, monkeypatch):
    made = Stage(tmp_path)
    monkeypatch.setitem(sys.modules, "mindspore.dataset.core.config", made.config)
    yield made
    atexit.unregister(made.stream._exit)


def test_each_pipeline_has_a_window(stage, tmp_path):
    for _ in range(2):
        iterator = stage.build()
        assert stage.taken() == "init start" and stage.session.steps.next_look == 0
        stage.close(iterator)
        assert stage.taken() == "stop save"
    assert sorted(os.listdir(tmp_path / "pipelines")) == ["000000", "000001"]
    assert stage.session.recorder.marks == [
        ("dataset window", 0),
        ("dataset window end", 0),
        ("dataset window", 1 << 32 | 1),
        ("dataset window end", 1 << 32 | 1),
    ]


def test_a_window_ends_in_time_and_the_next_begins_after_a_pause(stage, monkeypatch):
    monkeypatch.setattr(sampling_plan, "WINDOW", 0.0)
    stage.stream._plan.pause = 0.0
    iterator = stage.build()
    stage.taken()
    assert not stage.stream.stepped(1)[1] and stage.taken() == "stop"  # no check has yet found that samples are taken
    eventually(lambda: stage.stream.stepped(2)[1])
    assert stage.taken() == "save start"
    stage.stream._plan.pause = 8.0
    stage.close(iterator)
    assert stage.taken() == "stop save" and stage.stream._plan.pause == 16.0


def test_a_known_dataset_is_only_registered_during_a_pause(stage):
    dataset = Dataset()
    stage.close(stage.build(dataset))
    stage.taken()
    stage.stream._plan._resume = float("inf")
    iterator = stage.build(dataset)
    assert stage.taken() == "init start stop"
    stage.close(iterator)
    assert stage.taken() == ""
    stage.build()
    assert stage.taken() == "init start" and stage.manager.on


def test_while_a_second_one_is_built_the_profiler_is_off(stage):
    first = stage.build()
    stage.taken()
    second = stage.build()
    assert stage.taken() == "stop"
    stage.close(second)
    assert stage.taken() == ""
    stage.close(first)
    assert stage.taken() == "save"
    assert "another one lives" in stage.refused[0][0]


def test_one_inside_another_is_the_last(stage):
    outer = Iterator()

    def build(dataset):
        outer.build()
        stage.build()

    stage.stream.create(build, outer, (Dataset(),), {})
    assert stage.taken() == "init start stop"
    stage.close(outer)
    stage.build()
    assert stage.taken() == "" and stage.refused[0][1] == "two pipelines were built at once"


def test_a_build_that_fails_is_the_last(stage):
    iterator = Iterator()
    with pytest.raises(RuntimeError, match="no such files"):
        stage.stream.create(iterator.fail, iterator, (Dataset(),), {})
    stage.build()
    assert stage.taken() == "init start stop"
    assert stage.refused[0][1] == "a pipeline could not be built"


def test_threads_wait_for_one_another(stage):
    inside, go = threading.Event(), threading.Event()
    slow = Iterator()

    def build(dataset):
        inside.set()
        assert go.wait(60)
        slow.build()

    builder = threading.Thread(target=lambda: stage.stream.create(build, slow, (Dataset(),), {}))
    builder.start()
    assert inside.wait(60)
    other = threading.Thread(target=stage.build)
    other.start()
    go.set()
    builder.join()
    other.join()
    assert stage.taken() == "init start stop"  # the second halts the first, as each further one does
    assert not stage.stream._given_up


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda stage: setattr(stage.config, "get_enable_autotune", lambda: True), "AutoTune"),
        (lambda stage: setattr(stage.config, "get_debug_mode", lambda: True), "debug mode"),
        (lambda stage: None, "/no/such/file"),
    ],
)
def test_where_it_would_do_harm_it_is_left_alone(stage, monkeypatch, change, why):
    change(stage)
    if "/" in why:
        monkeypatch.setattr(pipeline, "SOURCES", (why,))
    stage.build()
    assert stage.taken() == "" and why in stage.refused[0][1]


def test_without_the_option_nothing_is_recorded(stage):
    stage.options.data_process = False
    stage.close(stage.build())
    stage.stream.end()
    assert stage.taken() == "" and stage.refused == []


def test_no_pipeline_was_built(stage):
    stage.stream.end()
    assert stage.refused == [(pipeline.SUBJECT, "no pipeline of mindspore.dataset was built")]


def test_the_end_saves_a_running_pipeline(stage):
    iterator = stage.build()
    stage.stream.end()
    assert stage.taken() == "init start stop save"
    stage.stream.begin()
    assert stage.taken() == "start"
    stage.close(iterator)
    assert stage.taken() == "stop save"


def test_the_disk_sets_a_limit(stage):
    stage.session.limit = 20
    stage.close(stage.build())
    stage.build()
    assert stage.taken() == "init start stop save"
    assert "they took" in stage.refused[0][1]


def test_a_fork_child_touches_nothing_of_its_parents(stage, tmp_path):
    iterator = stage.build()
    stage.taken()
    stage.session.forked = True
    stage.build()
    stage.build()
    assert stage.taken() == "stop"
    stage.close(iterator)
    assert stage.taken() == "" and not (tmp_path / "pipelines").exists()


def test_the_script_may_use_the_profiler_itself(stage):
    init = stage.stream.yield_to(Manager.init)
    iterator = stage.build()
    stage.taken()
    # ms-profiler watches a running pipeline; the script's profiler takes over while the pipeline runs
    init(stage.manager)
    assert stage.taken() == "stop save"
    stage.manager.start()
    stage.close(iterator)
    stage.manager.stop()
    assert stage.taken() == "start stop"
    init(stage.manager)
    stage.build()
    assert stage.taken() == "init"
    assert "itself" in stage.refused[0][1]
