"""In jobs whose steps are hard to recognise, ms-profiler finds as many steps as the script counts."""

import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.metrics import steps, stretches
from ms_profiler.analysis.readers import store
from ms_profiler.store.format import StepSource

SLOW = pytest.mark.slow
RAISES = {"MS_PROFILER_RAISE": "1"}


def counted(job, program, *kind):
    """Run a program; return its own number of steps, the found steps, and the parts of the whole run."""
    run = job(PROGRAMS / program, *kind, options={"analyse": "off", "quiet": True}, env=RAISES)
    assert (run.code, run.lines) == (0, []), run.err
    recording = store.read(str(run.result))
    return int(run.out.splitlines()[-1]), steps.choose(recording), set(stretches.stretches(recording)["part"])


@pytest.mark.parametrize(
    "kind",
    [
        "gan_critics_once",
        pytest.param("prefetched", marks=SLOW),
        pytest.param("rollout", marks=SLOW),
        pytest.param("bare", marks=SLOW),
        *(
            pytest.param(kind, marks=SLOW)
            for kind in (
                *("evaluation_first", "warm_up", "gan", "gan_once", "gan_critics", "together"),
                "parameters",
            )
        ),
    ],
)
def test_of_pytorch(job, kind):
    count, found, parts = counted(job, "torch_steps.py", kind)
    assert ("network calls" in parts) == (kind in ("rollout", "evaluation_first", "warm_up"))
    assert (found.table["number"].to_list(), found.source) == (list(range(count)), StepSource.OPTIMIZER_CYCLE)
    assert found.table["duration_ns"].min() > 0


@SLOW
def test_of_a_job_whose_optimizer_is_never_called(job):
    count, found, _ = counted(job, "torch_steps.py", "only_called")
    assert (found.table.height, found.source) == (count, StepSource.NETWORK_CALL)


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("pynative", "rollout"),
        ("graph", "evaluation_first"),
        *(
            pytest.param(mode, kind, marks=SLOW)
            for mode, kind in [
                ("graph", "cells"),
                ("pynative", "evaluation_first"),
                ("pynative", "cells"),
                ("pynative", "accumulate"),
                ("pynative", "summing_cell"),
                ("pynative", "optimizers"),
            ]
        ),
    ],
)
def test_of_mindspore(job, mode, kind):
    count, found, parts = counted(job, "mindspore_steps.py", mode, kind)
    assert ("network calls" in parts) == (kind == "rollout")
    assert ("evaluation" in parts) == (kind == "evaluation_first")
    source = StepSource.TRAIN_CELL if mode == "graph" else StepSource.OPTIMIZER_CYCLE
    assert (found.table["number"].to_list(), found.source) == (list(range(count)), source)


@SLOW
@pytest.mark.parametrize("kind", ["PPO", "A2C", "DQN", "skorch"])
def test_of_libraries_with_loops_of_their_own(job, kind):
    count, found, parts = counted(job, "torch_learners.py", kind)
    assert ("rollout" in parts) == (kind != "skorch")
    assert (found.table["number"].to_list(), found.source) == (list(range(count)), StepSource.OPTIMIZER_CYCLE)
    assert found.table["duration_ns"].min() > 0


@SLOW
@pytest.mark.parametrize("kind", ["reinforce", "teacher", "closure", "alternate", "leftover"])
def test_steps_of_loops_by_other_authors(job, kind):
    count, found, parts = counted(job, "torch_strangers.py", kind)
    assert ("evaluation" in parts) == (kind != "leftover")
    assert kind != "leftover" or "network calls" in parts, "it warms up"
    assert (found.table["number"].to_list(), found.source) == (list(range(count)), StepSource.OPTIMIZER_CYCLE)
    assert found.table["duration_ns"].min() > 0
