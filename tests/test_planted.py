"""For a job with a planted fault, the first advice names this fault; a job without faults gets no advice.

No page contradicts itself.
"""

import json
import re
from functools import cache

import pytest
from conftest import PROGRAMS, launcher
from csv_rows import rows
from launches import TOOLS, free_port, launched, msrun
from test_cli import run as sql

#: planted fault -> cause of the first advice; for jobs of several ranks, a cause for each rank
TORCH = {
    "input": "input-bound",
    "sync": "sync-bound",
    "launch": "launch-bound",
    "growth": "memory-growth",
    "sleep-module": "host-waits",
    "sleep-function": "host-waits",
    "none": "",
    "input-workers": "input-bound",
    "epochs": "worker-starts",
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
    "late": ("late-rank", "host-waits"),
    "late-python": ("late-rank", "host-bound"),
    "every-pass": ("communication-bound", "communication-bound"),
    "gather": ("communication-bound", "communication-bound"),
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
    "sleep-backward": "host-waits",
    "io": "host-waits",
    "python": "host-bound",
    "garbage": "gc-pauses",
    "checkpoint": "checkpointing",
    "optimizer": "optimizer-bound",
    "none": "",
    "pynative": "",
    "convolution": "",
}
#: faults in scripts like those of other people, `strangers_torch.py`
STRANGERS = {
    "callback": "host-waits",
    "histograms": "host-bound",
    "pairs": "host-bound",
    "save": "checkpointing",
    "tokens": "input-bound",
    "collate": "input-bound",
    "turned": "input-bound",
    "lock": "host-waits",
    "socket": "host-waits",
    "queue": "host-waits",
    "child": "host-waits",
    "play": "host-waits",
    "hook": "host-waits",
    "gradient-hook": "host-waits",
    "ratings": "optimizer-bound",
    "lion": "unfused-optimizer",
    "single": "unfused-optimizer",
    "scan": "launch-bound",
    "one-by-one": "sync-bound",
    "anomaly": "anomaly-detection",
    "average": "launch-bound",
    "leak": "memory-growth",
    "trainer": "",
    "text": "",
    "loaded": "",
    "language": "",
    "adversaries": "",
    "accumulated": "",
}
STRANGERS_RANKS = {
    "sleep-first": ("host-waits", "late-rank"),
    "data-last": ("late-rank", "input-bound"),
    "compute-last": ("late-rank", ""),
    "none": ("", ""),
}
MINDSPORE_RANKS = {"late": ("late-rank", "host-waits"), "ranks": ("", "")}
#: the kinds that always run: they are fast, and their verdict does not change on a busy machine
QUICK = ("input", "epochs")
#: cause of an advice -> the part of the steps about which it speaks
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
    """Return a function that returns the results of a planted job, sorted by rank; each job runs once."""

    @cache
    def run(program, kind):
        folder = tmp_path_factory.mktemp("planted")
        output = folder / "data"
        ranks = {"planted_torch.py": TORCH_RANKS, "strangers_torch.py": STRANGERS_RANKS}.get(program, MINDSPORE_RANKS)
        if kind in ranks:
            options = {"start": True, "output_path": str(output)}
            if "mindspore" in program:
                msrun(folder, PROGRAMS / program, kind, options=options)
            else:
                command = [TOOLS / "torchrun", "--nproc_per_node=2", f"--master_port={free_port()}"]
                launched([[*command, PROGRAMS / program, kind]], folder, options)
        else:
            # one thread for each operator, because threads that share a processor wait for each other
            threads = {} if kind == "threads" else {"OMP_NUM_THREADS": "1"}
            done = launcher(folder)(PROGRAMS / program, kind, options={"analyse": "sync"}, env=threads)
            assert done.code == 0, done.err
        found = {summary(result)["rank"]: result for result in output.glob("*_ascend_ms")}
        return [result for _, result in sorted(found.items())]

    return run


def summary(result):
    return json.loads((result / "summary.json").read_text())


def agrees(result):
    """Check that figures that a page shows twice agree, and that parts add up."""
    page = summary(result)
    shares_add_up(page)
    steps_are_the_same(page, result)
    finding_and_advice_are_those_of_the_tables(page)


def shares_add_up(page):
    """Check that the shares of each table add up."""
    phases = page["phases"]
    tables = [page["bounds"]["shares"], page["critical_path"]["shares"]]
    tables += [{name: phase[key] for name, phase in phases.items()} for key in ("share", "steady_share")]
    tables += [{str(place): part["share"] for place, part in enumerate(run["parts"])} for run in page["whole_run"]]
    for shares in tables:
        assert sum(shares.values()) == pytest.approx(1, abs=1e-4), shares
    for run in page["whole_run"]:
        assert sum(part["total_ns"] for part in run["parts"]) == run["total_ns"]
        for part in run["parts"]:
            assert sum(part["contains_ms"].values()) == pytest.approx(part["total_ns"] / 1e6, abs=1e-2), part
    assert page["whole_run"][0]["total_ns"] / 1e9 == pytest.approx(page["run"]["duration_s"], abs=1e-5)
    tree = page["module_tree"]
    if tree is not None:
        outermost = sum(row["total_ms"] for row in tree["rows"] if row["depth"] == 0)
        shown = tree["count"] == len(tree["rows"])
        assert outermost + tree["outside_ms"] <= tree["whole_ms"] * 1.0001
        assert not shown or outermost + tree["outside_ms"] == pytest.approx(tree["whole_ms"], rel=1e-3)
        for row in tree["rows"]:
            assert row["share"] == pytest.approx(row["total_ms"] / tree["whole_ms"], abs=1e-4)


def steps_are_the_same(page, result):
    """Check that figures in several places of a page come from the same steps and intervals."""
    bounds, path, phases, steady = (
        page["bounds"]["shares"],
        page["critical_path"],
        page["phases"],
        page["steps"]["steady"],
    )
    assert page["coverage"]["detailed_steps"] is None, "too large for memory: the modules are those of a few steps"
    mean = sum(phase["steady_per_step_ms"] for phase in phases.values())
    # the phases describe all steady steps, and the statistics those of them that were sampled
    query = "select dur / 1e6 as ms from steps where not recorded"
    others = json.loads(sql("sql", result, query, "--format=json").stdout)
    lengths = steady["count"] * [steady["mean_ms"]] + [row["ms"] for row in others]
    assert mean == pytest.approx(sum(lengths) / len(lengths), rel=1e-4)
    if page["module_tree"] is not None and page["module_tree"]["basis"] == "host":
        assert page["module_tree"]["steps"] == steady["count"]
        assert page["module_tree"]["whole_ms"] == pytest.approx(mean, rel=1e-4)
    everything = sum(part["total_ns"] for part in page["whole_run"][0]["parts"] if part["part"] == "steps") / 1e6
    assert everything == pytest.approx(sum(phase["total_ms"] for phase in phases.values()), rel=1e-3)
    table = {row["Step"]: row for row in rows(result, "step_trace_time")}
    walked = {
        str(step["number"]): sum(value for key, value in step.items() if key.endswith("_ms")) for step in path["steps"]
    }
    for number, length in walked.items():
        row = {column: float(value) for column, value in table[number].items() if column not in ("Step", "Device_id")}
        assert row["Stage"] == pytest.approx(length * 1e3, rel=1e-4)
        parts = row["Computing"] + row["Communication(Not Overlapped)"] + row["Free"]
        assert parts == pytest.approx(row["Stage"], abs=0.01)
    whole = sum(float(table[number]["Stage"]) for number in walked)
    for column, part in (("Computing", "computing"), ("Communication(Not Overlapped)", "communication")):
        share = sum(float(table[number][column]) for number in walked) / whole
        # the bounds count the whole call of an exchange, the table only its kernel
        more = bounds.get(part, 0.0) - share
        assert -2e-3 <= more <= (1e-2 if part == "communication" else 2e-3), (column, bounds)
    if len(walked) == steady["count"]:
        assert sum(walked.values()) == pytest.approx(steady["count"] * steady["mean_ms"], rel=1e-4)
    if page["framework"]["name"] == "torch":  # operators run on the host, so the critical path is the host's work
        for part in {*bounds, *path["shares"]}:
            assert path["shares"].get(part, 0.0) == pytest.approx(bounds.get(part, 0.0), abs=1e-4)
    # Host work during a kernel may be on the critical path. There, the shares of kernels are smaller, and those of the
    # host larger.
    for part in {*bounds, *path["shares"]}:
        more, less = path["shares"].get(part, 0.0), bounds.get(part, 0.0)
        more, less = (less, more) if part in ("computing", "communication") else (more, less)
        assert more >= less - 1e-4, (part, path["shares"], bounds)
    for part in ("data", "compile", "checkpoint"):
        phase = phases.get(part, {"steady_share": 0.0})["steady_share"]
        assert bounds.get(part, 0.0) <= phase + 1e-3, (part, bounds, phases)
    assert bounds.get("runnable", 0.0) <= page["machine"]["queued_share"] + 0.02


def finding_and_advice_are_those_of_the_tables(page):
    """Check each number in a sentence of the page against the table from which it comes."""
    bounds, phases, finding = page["bounds"]["shares"], page["phases"], page["finding"]
    if finding["kind"] == "compile":
        assert finding["share"] >= 0.5
    elif finding["kind"] in bounds:
        assert finding["share"] == pytest.approx(bounds[finding["kind"]], abs=1e-4)
    elif finding["kind"] == "other":
        assert finding["share"] <= phases["other"]["steady_share"] + 1e-3
        assert "computing" not in page["verdict"] or finding["share"] <= bounds["computing"] + 1e-3
    elif finding["kind"] in phases and "time of kernels" not in page["verdict"]:
        assert finding["share"] == pytest.approx(phases[finding["kind"]]["steady_share"], abs=1e-4)
    assert (
        f"{finding['share'] * 100:.0f} %" in page["verdict"]
        or finding["kind"] == "nothing"
        or "took" in page["verdict"]
    )
    named = re.search(r"; (\S+)( itself)? takes (\d+) % of the step", page["verdict"])
    for row in page["module_tree"]["rows"] if named else []:
        if row["module"] == named[1]:
            share = row["self_ms"] / page["module_tree"]["whole_ms"] if named[2] else row["share"]
            assert f"{share * 100:.0f}" == named[3]
    for item in page["advice"]:
        cause = item["cause"]
        if cause in PART_OF:
            assert item["share"] == pytest.approx(bounds[PART_OF[cause]], abs=1e-4), item
        if cause == "host-bound":
            host = bounds.get("host", 0.0) + bounds.get("unknown", 0.0)
            assert item["share"] == pytest.approx(host, abs=1e-4), item
        if cause in (*PART_OF, "host-bound", "casting", "optimizer-bound", "unfused-optimizer", "oversubscribed"):
            assert f"{item['share'] * 100:.1f} %" in item["evidence"]
        if cause == "oversubscribed":
            assert item["share"] == pytest.approx(page["machine"]["queued_share"], abs=1e-4)
        if cause in ("optimizer-bound", "unfused-optimizer") and page["framework"]["name"] == "torch":
            waits = bounds.get("blocked", 0.0) + bounds.get("runnable", 0.0)
            phase = phases["optimizer"]["steady_share"]
            assert phase - waits - 1e-3 <= item["share"] <= phase + 1e-3
            launching = re.search(r"launching them takes (\d+\.\d) %", item["evidence"])
            assert launching is None or float(launching[1]) / 100 <= bounds["launch"] + 1e-3
        known = page["critical_path"]["shares"] if "on the critical path" in item["evidence"] else bounds
        for evidence in re.findall(r"[;,] computing takes (\d+\.\d) %", item["evidence"]):
            assert evidence == f"{known.get('computing', 0.0) * 100:.1f}"
        if cause == "memory-growth":
            growth = page["memory_growth"]
            assert item["share"] == pytest.approx(
                min(growth["total"] / (growth["held"] - growth["total"]), 1), abs=1e-4
            )


def first(result):
    advice = summary(result)["advice"]
    if advice and advice[0]["cause"] == "busy-machine":
        pytest.skip(f"this machine was not fit: {advice[0]['evidence']}")
    return [item["cause"] for item in advice][:1]


def slow(kinds):
    return [pytest.param(kind, marks=[pytest.mark.slow] * (kind not in QUICK)) for kind in kinds]


@pytest.mark.slow
def test_workers_that_are_kept_are_no_cause(planted):
    (result,) = planted("planted_torch.py", "kept-workers")
    assert "worker-starts" not in {item["cause"] for item in summary(result)["advice"]}


@pytest.mark.parametrize("kind", slow(TORCH))
def test_the_cause_planted_in_a_job_of_pytorch_comes_first(planted, kind):
    (result,) = planted("planted_torch.py", kind)
    assert first(result) == [TORCH[kind]] * bool(TORCH[kind]), summary(result)["advice"]
    agrees(result)
    if kind in ("sleep-module", "sleep"):
        evidence = summary(result)["advice"][0]["evidence"]
        assert ("own code of Sequential.7" in evidence) == (kind == "sleep-module"), evidence


@pytest.mark.slow
@pytest.mark.parametrize("kind", STRANGERS)
def test_a_cause_planted_by_another_author_comes_first(planted, kind):
    (result,) = planted("strangers_torch.py", kind)
    assert first(result) == [STRANGERS[kind]] * bool(STRANGERS[kind]), summary(result)["advice"]
    agrees(result)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MINDSPORE)
def test_the_cause_planted_in_a_job_of_mindspore_comes_first(planted, kind):
    (result,) = planted("planted_mindspore.py", kind)
    assert first(result) == [MINDSPORE[kind]] * bool(MINDSPORE[kind]), summary(result)["advice"]
    if kind == "launch":
        known, item = summary(result), summary(result)["advice"][0]
        assert known["finding"]["kind"] == "launch" and "kernel time" not in known["verdict"]
        # MindSpore's threads launch most of them in the forward pass, in which the script waits for them
        assert "the script calls 800 operators a step outside of the model, mostly AddExt" in item["evidence"]
        assert "in forward" not in known["verdict"] + item["evidence"]
    agrees(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "kind", "causes"),
    [
        *(("planted_torch.py", kind, causes) for kind, causes in TORCH_RANKS.items()),
        *(("strangers_torch.py", kind, causes) for kind, causes in STRANGERS_RANKS.items()),
        *(("planted_mindspore.py", kind, causes) for kind, causes in MINDSPORE_RANKS.items()),
    ],
)
def test_ranks_that_wait_for_a_late_one_and_the_late_one_itself(planted, program, kind, causes):
    results = planted(program, kind)
    for result, cause in zip(results, causes, strict=True):
        assert first(result) == [cause] * bool(cause), summary(result)["advice"]
        agrees(result)
        if kind == "every-pass":
            assert "each of the 4 backward passes of a step exchanges" in summary(result)["advice"][0]["evidence"]
        gathers = "AllGather, which the script calls once a step" in json.dumps(summary(result)["advice"])
        assert gathers == (kind == "gather"), summary(result)["advice"]
