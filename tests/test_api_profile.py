"""Scripts call the profiler under MindSpore's names and under ours, with the variable and without it."""

import json

import jsonschema
import pytest
from conftest import PROGRAMS, ROOT
from csv_rows import rows as table

SCHEMA = json.loads((ROOT / "agent/ms_profiler/analysis/report/summary.schema.json").read_text())
#: Program for `python -c` that runs a script without the variable. It redirects the script's calls of MindSpore's
#: profiler to ours.
INSTALLED = """
import runpy, sys, ms_profiler
ms_profiler.install()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
#: ways for cases whose start and stop without the variable another fast test checks
OFTEN_SEEN = ("variable", pytest.param("install", marks=pytest.mark.slow))
in_every_mode = pytest.mark.parametrize(
    ("mode", "way"),
    [
        ("graph", "variable"),
        ("pynative", "install"),
        pytest.param("graph", "install", marks=pytest.mark.slow),
        pytest.param("pynative", "variable", marks=pytest.mark.slow),
    ],
)


def start(job, way, program, *words, **extra):
    """Run a program whose calls of MindSpore's profiler go to ours, by the variable or by `install`."""
    if way == "variable":
        return job(PROGRAMS / program, *words, env={"MS_PROFILER_RAISE": "1"}, **extra)
    words = (str(PROGRAMS / program), *words)
    return job(INSTALLED, *words, profile=False, env={"MS_PROFILER_RAISE": "1"}, **extra)


def results(folder):
    return sorted(folder.glob("*_ascend_ms"), key=lambda path: path.name.rsplit("_", 3)[1])


def rows(result, name="step_trace_time.csv"):
    return table(result, name)


def numbers(result):
    return [int(row["Step"]) for row in rows(result)]


def kernels(result):
    return len(rows(result, "kernel_details.csv"))


def summary(result):
    content = json.loads((result / "summary.json").read_text())
    jsonschema.validate(content, SCHEMA)
    return content


@pytest.mark.parametrize(
    ("names", "way"),
    [
        ("mindspore.profiler", "variable"),
        pytest.param("ms_profiler", "none", marks=pytest.mark.slow),
        pytest.param("mindspore.profiler", "none", marks=pytest.mark.slow),
        pytest.param("ms_profiler", "variable", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_cycles_of_a_schedule_get_a_directory_each(job, tmp_path, names, way):
    if names == "mindspore.profiler" and way == "none":
        run = start(job, "install", "own_profiler.py", names)
    else:
        run = job(PROGRAMS / "own_profiler.py", names, profile=way == "variable", env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    assert len([line for line in run.out.splitlines() if "0x" in line]) == 15
    own = results(tmp_path / "own")
    assert [numbers(result) for result in own] == [[3, 4], [7, 8]]
    for result in own:
        assert result.name.startswith("worker_")
        found = summary(result)
        assert found["steps"]["source"] == "script"
        assert found["run"]["processes"][0]["state"] == "stopped"
        assert kernels(result) == found["kernels"]["count"] == 20
        assert rows(result, "operator_details.csv")
        metadata = json.loads((result / "profiler_metadata.json").read_text())
        assert (metadata["who"], metadata["what"]) == ("me", {"lr": 0.01})
        info = json.loads((result / "profiler_info_0.json").read_text())["profiler_parameters"]
        assert info["is_set_schedule"] and info["schedule"]["active"] == 2
        trace = json.loads((result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
        assert [event["name"] for event in trace].count("mine: begin") == 2
    if way == "variable":
        everything = run.result
        assert numbers(everything) == list(range(15))
        assert kernels(everything) == 150
        times = {int(row["Step"]): row["Computing"] for row in rows(everything)}
        # the script's profiler begins three steps after the recording of the variable
        both = [(row["Computing"], times[int(row["Step"]) + 3]) for result in own for row in rows(result)]
        assert all(mine == its for mine, its in both)
    else:
        assert not run.output.exists()


EPOCHS = """
import mindspore as ms
import mindspore.dataset as ds
import mindspore.profiler as profiling
import numpy as np
from mindspore import nn

class Evaluation(ms.Callback):
    def on_train_step_end(self, run_context):
        if run_context.original_args().cur_step_num % 3 == 2:
            model.eval(batches, dataset_sink_mode=False)

class Report(ms.Callback):
    def on_train_step_end(self, run_context):
        profiler.step()

ms.set_context(mode=ms.PYNATIVE_MODE)
batches = ds.NumpySlicesDataset((np.ones((12, 4), np.float32), np.ones((12, 2), np.float32)), ["x", "y"]).batch(4)
net = nn.Dense(4, 2)
model = ms.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.01), metrics={"mse": nn.MSE()})
schedule = profiling.schedule(wait=1, warmup=1, active=2, repeat=1)
with profiling.profile(schedule=schedule, on_trace_ready=profiling.tensorboard_trace_handler("own")) as profiler:
    model.train(3, batches, callbacks=[Evaluation(), Report()], dataset_sink_mode=False)
model.train(1, batches, callbacks=[Evaluation()], dataset_sink_mode=False)
"""


@pytest.mark.slow
def test_a_profiler_of_the_script_loses_no_step_of_a_model_loop(job, tmp_path):
    """Each epoch has three steps. In the callbacks of the second one, the script evaluates."""
    run = job(EPOCHS, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    (own,) = results(tmp_path / "own")
    assert numbers(own) == [2, 3]
    assert numbers(run.result) == list(range(12))


FROM_THE_FIRST = """
import ms_profiler
for own in ("once", "again"):
    steps = ms_profiler.schedule(wait=0, active=3, repeat=1)
    handler = ms_profiler.tensorboard_trace_handler(own)
    with ms_profiler.profile(schedule=steps, on_trace_ready=handler) as profiler:
        for number in range(3):
            sum(range(100000))
            profiler.step()
"""


@pytest.mark.slow
def test_a_schedule_without_a_wait_keeps_its_first_step(job, tmp_path):
    """The first step begins before the recording; the recording must not cut it off."""
    run = job(FROM_THE_FIRST, profile=False)
    assert run.code == 0, run.err
    for own in ("once", "again"):
        (result,) = results(tmp_path / own)
        assert numbers(result) == [0, 1, 2]


@pytest.mark.slow
@in_every_mode
def test_a_callback_profiles_steps_of_a_model_loop(job, tmp_path, way, mode):
    run = start(job, way, "stop_at_step.py", mode)
    assert run.code == 0, run.err
    (own,) = results(tmp_path / "own")
    assert numbers(own) == [3, 4, 5]  # the callback counts steps from 1, the result from 0
    assert summary(own)["steps"]["source"] == "framework_loop"
    if way == "variable":
        assert numbers(run.result) == list(range(12))
        assert kernels(own) * 4 == kernels(run.result)
        assert summary(run.result)["run"]["processes"][0]["state"] == "exit"


@pytest.mark.parametrize("way", OFTEN_SEEN)
@pytest.mark.slow
def test_a_callback_profiles_epochs(job, tmp_path, way):
    run = start(job, way, "stop_at_epoch.py")
    assert run.code == 0, run.err
    (own,) = results(tmp_path / "own")
    assert len(numbers(own)) == 6
    if way == "variable":
        assert len(numbers(run.result)) == 15
        assert kernels(own) * 5 == kernels(run.result) * 2


@pytest.mark.parametrize(
    ("way", "first", "last"),
    [
        ("variable", 10, 20),
        pytest.param("install", 10, 20, marks=pytest.mark.slow),
        pytest.param("variable", 100, 200, marks=pytest.mark.slow),  # the numbers of steps in MindSpore's documents
    ],
)
def test_a_loop_profiles_from_one_step_to_another(job, tmp_path, way, first, last):
    run = start(job, way, "own_loop.py", str(first), str(last))
    assert run.code == 0, run.err
    (own,) = results(tmp_path / "own")
    assert numbers(own) == list(range(first + 1, last + 1))
    if way == "variable":
        assert numbers(run.result) == list(range(last + 5))


@pytest.mark.parametrize("way", OFTEN_SEEN)
@pytest.mark.slow
def test_profilers_that_overlap_are_each_right(job, tmp_path, way):
    run = start(job, way, "own_several.py")
    assert (run.code, run.out) == (0, "passed on: of the job\n"), run.err
    everything = list(range(15))
    for folder, expected in (("early", range(2, 7)), ("late", range(4, 10)), ("error", (12, 13)), ("never", (14,))):
        (own,) = results(tmp_path / folder)
        assert kernels(own) == 10 * len(expected), folder
        assert summary(own)["run"]["processes"][0]["state"] == "stopped"
        if way == "variable":
            assert numbers(own) == list(expected), folder
    if way == "variable":
        assert numbers(run.result) == everything
        assert kernels(run.result) == 150


ERRORS = """
late passed
stop before start {0}
step without schedule {0}
start passed
start twice {0}
stop passed
stop twice {0}
early passed
start although started {0}
stop early passed
old warned
old start {0}
old step {0}
old stop passed
wrong value warned
data passed
data start passed
data stop passed
data start {0}
"""


@pytest.mark.parametrize(("names", "what"), [("ms_profiler", "raised RuntimeError"), ("mindspore.profiler", "warned")])
@pytest.mark.slow
def test_errors_are_those_of_the_documents_and_warnings_where_a_script_ran_before(job, names, what):
    way = "install" if names == "mindspore.profiler" else "variable"
    run = start(job, way, "own_errors.py", names)
    assert run.code == 0, run.err
    assert run.out.split("\n") == ERRORS.lstrip("\n").format(what).split("\n")


def test_names_signatures_and_schedules_are_those_of_mindspore(job):
    run = job(PROGRAMS / "same_interface.py", profile=False)
    assert run.code == 0, run.err
    assert run.out == f"{4**5 * 40} agree\n"


NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

shell = InteractiveShell.instance()
with capture_output() as shown:
    shell.run_cell("import ms_profiler, mindspore as ms, numpy as np")
    shell.run_cell("net = ms.nn.Dense(2, 2)")
    shell.run_cell("with ms_profiler.profile():\\n    net(ms.Tensor(np.ones([2, 2], np.float32)))")
(output,) = shown.outputs
print(output.data["text/html"])
"""


@pytest.mark.slow
def test_a_cell_of_a_notebook_shows_the_summary(job, tmp_path):
    run = job(NOTEBOOK, profile=False, env={"IPYTHONDIR": str(tmp_path), "MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    (result,) = (tmp_path / "data").glob("*_ascend_ms")
    assert summary(result)["verdict"] in run.out
    assert "<td>forward</td>" in run.out and str(result) in run.out


def test_an_analysis_that_the_script_requests_is_in_no_step_and_is_a_cost_of_profiling(job, tmp_path):
    run = job(PROGRAMS / "own_profiler_between.py", str(tmp_path / "own"), options={"analyse": "sync"})
    assert run.code == 0, run.err
    took_ms = 1000 * float(run.out.split()[-1])
    (own,), (whole,) = results(tmp_path / "own"), results(run.output)
    assert numbers(own) == [0, 1, 2]
    assert numbers(whole) == list(range(6))
    found = summary(whole)
    assert found["steps"]["slowest"][0]["ms"] < took_ms / 2
    assert 0.9 * took_ms < found["cost"]["requested_ms"] <= found["cost"]["estimated_ms"]
