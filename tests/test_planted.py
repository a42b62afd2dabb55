"""Jobs with one thing wrong are told that first, those with nothing wrong nothing, and no page contradicts itself."""

import json
from functools import cache

import pytest
from conftest import PROGRAMS, launcher
from csv_rows import rows
from launches import TOOLS, free_port, launched, msrun

#: what is wrong, and what is told first; of those on several ranks, by rank
TORCH = {
    "input": "input-bound",
    "sync": "sync-bound",
    "launch": "launch-bound",
    "growth": "memory-growth",
    "sleep-module": "host-waits",
    "none": "",
    "input-workers": "input-bound",
    "recompile": "recompiling",
    "environment": "host-waits",
    "sleep": "host-waits",
    "python": "host-bound",
    "garbage": "gc-pauses",
    "checkpoint": "checkpointing",
    "optimizer": "optimizer-bound",
    "unfused": "unfused-optimizer",
    "threads": "oversubscribed",
    "casts": "casting",
    "convolution": "",
    "attention": "",
    "workers": "",
}
TORCH_RANKS = {
    "late": ("communication-bound", "host-waits"),
    "late-python": ("communication-bound", "host-bound"),
    "ranks": ("", ""),
}
MINDSPORE = {
    "input": "input-bound",
    "sync": "sync-bound",
    "launch": "launch-bound",
    "recompile": "recompiling",
    "growth": "memory-growth",
    "sleep": "host-waits",
    "sleep-cell": "host-waits",
    "python": "host-bound",
    "garbage": "gc-pauses",
    "checkpoint": "checkpointing",
    "none": "",
    "pynative": "",
    "convolution": "",
}
MINDSPORE_RANKS = {"late": ("late-rank", "host-waits"), "ranks": ("", "")}
#: the fastest of them whose verdict no busy machine changes run always
QUICK = ("input", "growth", "sleep-module")
#: advice on a part of the steps, which stands on the page too
PART_OF = {
    "input-bound": "data",
    "host-waits": "blocked",
    "gc-pauses": "garbage collection",
    "checkpointing": "checkpoint",
    "communication-bound": "communication",
    "late-rank": "communication",
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Return a function that runs a planted job once, and returns the directories of its results by rank."""

    @cache
    def run(program, kind):
        folder = tmp_path_factory.mktemp("planted")
        output = folder / "data"
        if kind in TORCH_RANKS or (kind in MINDSPORE_RANKS and "mindspore" in program):
            options = {"start": True, "output_path": str(output)}
            if "mindspore" in program:
                msrun(folder, PROGRAMS / program, kind, options=options)
            else:
                command = [TOOLS / "torchrun", "--nproc_per_node=2", f"--master_port={free_port()}"]
                launched([[*command, PROGRAMS / program, kind]], folder, options)
        else:
            # one thread for each operator: where threads share a processor they wait for each other
            threads = {} if kind == "threads" else {"OMP_NUM_THREADS": "1"}
            done = launcher(folder)(PROGRAMS / program, kind, env=threads)
            assert done.code == 0, done.err
        found = {summary(result)["rank"]: result for result in output.glob("*_ascend_ms")}
        return [result for _, result in sorted(found.items())]

    return run


def summary(result):
    return json.loads((result / "summary.json").read_text())


def agrees(result):
    """Check every share that stands on two places of a page."""
    page = summary(result)
    bounds, path, phases = page["bounds"]["shares"], page["critical_path"], page["phases"]
    for shares in (bounds, path["shares"], {name: phase["steady_share"] for name, phase in phases.items()}):
        assert sum(shares.values()) == pytest.approx(1, abs=1e-4)
    looked_at = {str(step["number"]) for step in path["steps"]}
    steps = [row for row in rows(result, "step_trace_time") if row["Step"] in looked_at]
    whole = sum(float(row["Stage"]) for row in steps)
    for column, part in (("Computing", "computing"), ("Communication(Not Overlapped)", "communication")):
        share = sum(float(row[column]) for row in steps) / whole
        assert share == pytest.approx(bounds.get(part, 0.0), abs=2e-3), (column, bounds)
    for part in ("data", "compile", "checkpoint"):
        phase = phases.get(part, {"steady_share": 0.0})["steady_share"]
        assert bounds.get(part, 0.0) <= phase + 1e-3, (part, bounds, phases)
    finding = page["finding"]
    if finding["kind"] in bounds and "Compiling took" not in page["verdict"]:
        assert finding["share"] == pytest.approx(bounds[finding["kind"]], abs=1e-4)
    elif finding["kind"] in phases:
        assert finding["share"] == pytest.approx(phases[finding["kind"]]["steady_share"], abs=1e-4)
    for item in page["advice"]:
        if item["cause"] in PART_OF:
            assert item["share"] == pytest.approx(bounds[PART_OF[item["cause"]]], abs=1e-4), item
            assert f"{item['share'] * 100:.1f} %" in item["evidence"]


def first(result):
    return [item["cause"] for item in summary(result)["advice"]][:1]


def slow(kinds):
    return [pytest.param(kind, marks=[pytest.mark.slow] * (kind not in QUICK)) for kind in kinds]


@pytest.mark.parametrize("kind", slow(TORCH))
def test_the_cause_planted_in_a_job_of_pytorch_comes_first(planted, kind):
    (result,) = planted("planted_torch.py", kind)
    assert first(result) == [TORCH[kind]] * bool(TORCH[kind]), summary(result)["advice"]
    agrees(result)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MINDSPORE)
def test_the_cause_planted_in_a_job_of_mindspore_comes_first(planted, kind):
    (result,) = planted("planted_mindspore.py", kind)
    assert first(result) == [MINDSPORE[kind]] * bool(MINDSPORE[kind]), summary(result)["advice"]
    agrees(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "kind", "causes"),
    [
        *(("planted_torch.py", kind, causes) for kind, causes in TORCH_RANKS.items()),
        *(("planted_mindspore.py", kind, causes) for kind, causes in MINDSPORE_RANKS.items()),
    ],
)
def test_ranks_that_wait_for_a_late_one_and_the_late_one_itself(planted, program, kind, causes):
    results = planted(program, kind)
    for result, cause in zip(results, causes, strict=True):
        assert first(result) == [cause] * bool(cause), summary(result)["advice"]
        agrees(result)
