"""The summary names the places where `torch.compile` broke a graph, and functions that it did not compile at all."""

import importlib.util

import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import graph_breaks
from ms_profiler.analysis.report import remarks
from ms_profiler.analysis.writers import summary
from ms_profiler.store.format import Category, Flag
from store_builder import MS, StoreBuilder


@pytest.fixture
def measures(tmp_path):
    """Return a function that writes two steps with compilations and runs of graphs in the first one."""

    def made(compiled, ran, flags=0, framework="torch"):
        store = StoreBuilder(tmp_path, framework={"name": framework, "version": "2.13.0"})
        thread = store.process().thread()
        for place, name in enumerate(compiled):
            thread.span(f"compile {name}", Category.COMPILE, place * MS, place * MS + MS // 2)
        for place, name in enumerate(ran, len(compiled)):
            thread.span(f"graph {name}", Category.GRAPH, place * MS, place * MS + MS // 2)
        thread.step(0, 0, 50 * MS, flags=flags)
        thread.step(1, 50 * MS, 60 * MS)
        return engine.measured(str(store.write()))

    return made


@pytest.mark.parametrize(
    ("resumed", "place"),
    [
        ("Net.torch_dynamo_resume_in_forward_at_12", ("Net.forward", 12)),
        ("torch_dynamo_resume_in_forward_at_12", ("forward", 12)),
        ("train.<locals>.torch_dynamo_resume_in_step_at_9_at_14", ("train.<locals>.step", 14)),
        ("torch_dynamo_resume_in_torch_dynamo_resume_in_step_at_9_at_14", ("step", 14)),
    ],
)
def test_the_place_of_a_break_is_named(measures, resumed, place):
    found = measures(["Net.forward", resumed, "lazy backward"], ["Net.forward", resumed])
    broken = graph_breaks.broken(found.recording, found.steps)
    assert (broken.places, broken.without) == ((place,), ())
    assert remarks.uncompiled(summary.summary(found))[0].startswith(
        f"torch.compile broke the graph in {place[0]} line {place[1]} ("
    )


def test_a_function_without_a_graph_is_named(measures):
    found = summary.summary(measures(["Net.forward", "Other.forward", "lazy backward"], ["Other.forward"]))
    assert (found["compile"]["graph_breaks"], found["compile"]["without_graph"]) == ([], ["Net.forward"])
    assert "made no graph of Net.forward: own operators run uncompiled" in remarks.uncompiled(found)[0]


def test_a_function_that_goes_on_after_a_break_is_not_without_a_graph(measures):
    resumed = "torch_dynamo_resume_in_train_at_3"
    found = summary.summary(measures(["train", resumed], [resumed]))["compile"]
    assert (found["graph_breaks"], found["without_graph"]) == ([{"function": "train", "line": 3}], [])


def test_nothing_is_said_of_a_step_that_is_not_sampled(measures):
    found = summary.summary(measures(["Net.forward"], [], flags=int(Flag.COARSE)))
    assert remarks.uncompiled(found) == []


def test_functions_that_mindspore_compiled_are_not_meant(measures):
    found = summary.summary(measures(["Net.forward"], [], framework="mindspore"))
    assert remarks.uncompiled(found) == []


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_breaks_of_a_real_job(job):
    program = PROGRAMS / "torch_graph_breaks.py"
    run = job(program, options={"analyse": "sync"}, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    (line,) = [
        number for number, text in enumerate(program.read_text().splitlines(), 1) if "the graph breaks here" in text
    ]
    compiled = run.summary["compile"]
    assert [place["line"] for place in compiled["graph_breaks"]] == [line]
    assert compiled["graph_breaks"][0]["function"].endswith("forward")
    assert [name.rpartition(".")[2] for name in compiled["without_graph"]] == ["forward"]
