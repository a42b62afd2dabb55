"""`ms-profiler cluster` names the late rank of a job with the cause, and reports that the other ranks wait."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest
from conftest import PROGRAMS
from launches import TOOLS, free_port, launched, msrun
from ms_profiler.analysis.cluster import module_times
from ms_profiler.analysis.driver import engine
from ms_profiler.cli import main
from ms_profiler.store.format import Category
from ms_profiler.store.names import EVALUATING
from store_builder import MS, StoreBuilder

TRACES = os.environ.get("MS_PROFILER_TEST_GPU_TRACES")
#: planted fault -> reported cause; None if no rank is late
CAUSES = {
    "input": "data",
    "computing": "computing",
    "sleep": "blocked",
    "stop": "stopped",
    "none": None,
}
#: module in which the late rank of `late_ranks_torch.py` computes for longer, and the cause
LAYER = {"layer": "computing"}
#: planted fault -> where the late rank takes longer, as the report names it
PLACES = {"layer": "Sequential.2", "sleep": module_times.OUTSIDE}
RANKS = 3
STEPS = 16


def empty(parent, rank):
    """Return the store of one of three ranks, with its process and its thread; it records only the group."""
    name = f"host_{rank + 1}_2026010100000012{rank}_ascend_ms"
    store = StoreBuilder(parent, name, rank=rank, world_size=RANKS, pid=rank + 1)
    process = store.process(rank + 1)
    thread = process.thread()
    thread.instant("group world ranks 0-2", Category.COMMUNICATION, 40 * MS, RANKS)
    return store, process, thread


def made(parent, late=1, data_ms=1, failed=None):
    """Write three ranks with one exchange in each step; one rank is late, because it waits longer for data.

    A failed rank has half of the steps.
    """
    paths = []
    for rank in range(RANKS):
        store, process, thread = empty(parent, rank)
        for number in range(STEPS // (2 if rank == failed else 1)):
            start = (50 + 20 * number) * MS
            waits = data_ms if rank == late else 1
            ready = start + (waits + 4) * MS + (rank + number) % 2 * MS // 10
            thread.span("next", Category.DATA, start, start + waits * MS)
            thread.span("forward", Category.FORWARD, start + waits * MS, ready)
            thread.span("AllReduce@world", Category.COMMUNICATION, ready, start + 19 * MS, arg=4_000_000)
            thread.step(number, start, start + 20 * MS)
        process.anchor((51 + 20 * STEPS) * MS)
        if rank == failed:
            process.info.state, process.info.end = "ended", "exception: ValueError"
        paths.append(store.write())
    engine.analyse(paths)
    return paths


def report(capsys, *words):
    """Run the command and return its JSON document."""
    assert main(["cluster", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_late_rank_is_named_and_the_others_wait(tmp_path, capsys):
    paths = made(tmp_path / "data", late=1, data_ms=11)
    found = report(capsys, tmp_path / "data")
    (late,) = found["late"]
    assert (late["rank"], late["cause"], late["step"]) == (1, "data", None)
    assert late["excess_ms"] == pytest.approx(10 * (STEPS - 1), rel=0.02)
    # the other ranks take as long as each other
    assert late["saved_at_median_ms"] == pytest.approx(10 * (STEPS - 1), rel=0.02)
    chain = late["delays"]
    assert (chain["operation"], chain["number"], chain["waiting_ranks"]) == ("allreduce", chain["step"], RANKS - 1)
    assert chain["late_ms"] == pytest.approx(10, abs=0.3)
    assert [row["role"] for row in found["ranks"]] == ["waits", "late", "waits"]
    assert found["verdict"].startswith("Rank 1 is late: it waits for its input, ")
    assert "Ranks 0 and 2 wait for it" in found["verdict"]
    assert found["lost_ms"] == pytest.approx(10 * (STEPS - 1), rel=0.02)
    assert {row["rank"] for row in found["critical"]} == {1}
    assert {path.name for path in (tmp_path / "data" / "cluster_analysis_output").iterdir()} == {
        "cluster_step_trace_time.csv",
        "cluster_communication.json",
        "cluster_communication_matrix.json",
        "communication_group.json",
    }
    # the page and the summary of all ranks both begin with the late rank
    for words in (["cluster", str(tmp_path / "data")], ["summary", str(tmp_path / "data")]):
        assert main(words) == 0
        assert capsys.readouterr().out.startswith("Rank 1 is late: it waits for its input")
    # without the ranks' digests, the command reads the recordings and finds the same
    for path in paths:
        (path / "rank.json").unlink()
    again = report(capsys, tmp_path / "data", "--no-files")
    assert again == found


def test_balanced_ranks_are_not_named(tmp_path, capsys):
    made(tmp_path / "data")
    found = report(capsys, tmp_path / "data", "--no-files")
    assert found["late"] == [] and found["verdict"].startswith("No rank is late")
    assert {row["role"] for row in found["ranks"]} == {"even"}
    assert not (tmp_path / "data" / "cluster_analysis_output").exists()


def test_a_failed_rank_is_reported_with_its_last_step(tmp_path, capsys):
    made(tmp_path / "data", failed=2)
    (remark,) = report(capsys, tmp_path / "data", "--no-files")["remarks"]
    assert (
        remark == f"Rank 2 ended with exception: ValueError, 161.0 ms after step {STEPS // 2 - 1}; "
        f"others came to step {STEPS - 1}."
    )


def test_clocks_of_machines_may_be_seconds_apart(tmp_path, capsys):
    for rank, path in enumerate(made(tmp_path / "data", data_ms=11)):
        content = json.loads((path / "rank.json").read_text()) | {"host": f"host{rank}", "boot": str(rank)}
        for table in ("steps", "exchanges"):
            for column in ("start_ns", "end_ns"):
                content[table][column] = [time + rank * 5000 * MS for time in content[table][column]]
        (path / "rank.json").write_text(json.dumps(content))
    found = report(capsys, tmp_path / "data", "--no-files")
    assert [late["rank"] for late in found["late"]] == [1]
    for rank, row in enumerate(found["ranks"]):
        clock = row["clock"]
        assert clock["by"] == ("exchanges" if rank else "machine")
        assert abs(clock["offset_ms"] - rank * 5000) <= clock["uncertainty_ms"] + 1e-3 < 20


def test_damaged_and_missing_ranks_are_reported(tmp_path, capsys):
    paths = made(tmp_path / "data", late=0, data_ms=11)
    (paths[2] / "rank.json").write_text("{")
    for segment in (paths[2] / "FRAMEWORK").glob("process_*/*.seg"):
        segment.write_bytes(b"\0" * 100)
    (paths[2] / "ASCEND_PROFILER_OUTPUT" / "communication.json").write_text('{"step1": ')
    found = report(capsys, tmp_path / "data")
    assert [late["rank"] for late in found["late"]] == [0]
    assert 2 in found["missing_ranks"]
    assert any(paths[2].name in remark for remark in found["remarks"])
    segments = sorted((paths[2] / "FRAMEWORK").glob("process_*/*.seg"))
    for number in range(5):
        (segments[0].parent / f"{number:06}.seg").write_bytes(b"nothing" * 20)
    (remark,) = [each for each in report(capsys, tmp_path / "data", "--no-files")["remarks"] if paths[2].name in each]
    assert remark.endswith("/000000.seg and 4 more: not a segment).") and remark.count(".seg") == 1
    shutil.rmtree(paths[1])
    found = report(capsys, tmp_path / "data", "--no-files")
    assert found["missing_ranks"] == [1, 2] and "one rank only" in found["verdict"]


def check(directory, kind, late, capsys):
    """Check the finding; on a busy machine, other ranks may be named, but only because they wait for a processor."""
    found = report(capsys, directory, "--no-files")
    named = [(each["rank"], each["cause"]) for each in found["late"] if each["cause"] != "runnable"]
    cause = (CAUSES | LAYER)[kind]
    assert named == ([] if cause is None else [(late, cause)]), found["verdict"]
    if named:
        places = [each["why"].partition(", mostly in ")[2] for each in found["late"] if each["rank"] == late]
        # MindSpore's graph mode has no modules on the host that the sleep could lie outside of
        assert places == [PLACES.get(kind, "")] or (kind == "sleep" and places == [""])
    if cause is not None and len(found["late"]) == 1:
        assert [row["role"] for row in found["ranks"]] == [
            "late" if rank == late else "waits" for rank in range(len(found["ranks"]))
        ]


@pytest.mark.slow
def test_jobs_in_one_directory_are_told_apart(tmp_path, capsys):
    """Two jobs of three ranks and of two ranks ran at the same time, and another job ran before."""
    longer = {"small": 9, "large": 12, "before": 6}
    names = {}
    for place, (job, ranks) in enumerate((("before", 3), ("large", 3), ("small", 2))):
        for rank in range(ranks):
            name = f"host_{100 * place + rank}_2026010100000012{rank}_ascend_ms"
            store = StoreBuilder(tmp_path / "data", name, rank=rank, world_size=ranks, pid=1 + 100 * place + rank)
            store.info.job = job
            names.setdefault(job, []).append(name)
            process = store.process(1 + 100 * place + rank)
            thread = process.thread()
            thread.instant(f"group world ranks 0-{ranks - 1}", Category.COMMUNICATION, 40 * MS, ranks)
            for number in range(STEPS):
                start = (50 + 20 * number) * MS
                ready = start + (3 + longer[job] * (rank == 1)) * MS
                thread.span("forward", Category.FORWARD, start, ready)
                thread.span("AllReduce@world", Category.COMMUNICATION, ready, start + 19 * MS, arg=4_000_000)
                thread.step(number, start, start + 20 * MS)
            process.anchor((51 + 20 * STEPS) * MS)
            path = store.write()
    engine.analyse([str(each) for each in path.parent.iterdir()])
    for place, job in enumerate(("before", "large", "small")):
        for name in names[job]:
            path = tmp_path / "data" / name / "rank.json"
            content = json.loads(path.read_text())
            path.write_text(json.dumps(content | {"started_ns": content["started_ns"] + place * MS}))
    matrix = tmp_path / "data" / "cluster_analysis_output" / "communication_group.json"
    for words, job, others in (
        ((), "small", ("large", "before")),
        (("--job", names["large"][2]), "large", ("small", "before")),
        (("--job", tmp_path / "data" / names["before"][1]), "before", ("small", "large")),
    ):
        found = report(capsys, tmp_path / "data", *words)
        ranks = 2 if job == "small" else 3
        assert [Path(row["directory"]).name for row in found["ranks"]] == names[job]
        (late,) = found["late"]
        assert late["rank"] == 1 and late["excess_per_step_ms"] == pytest.approx(longer[job])
        (remark,) = found["remarks"]
        which = "the job that --job chooses" if words else "the newest job"
        assert f"data has results of 3 jobs. The figures are of {which} ({ranks} ranks)." in remark
        assert all(names[each][0] in remark for each in others) and names[job][0] not in remark
        assert json.loads(matrix.read_text())["collective"] == [list(range(ranks))]
    assert main(["cluster", str(tmp_path / "data"), "--job", "none_ascend_ms"]) == 2
    assert "There is no result none_ascend_ms." in capsys.readouterr().err
    assert main(["summary", str(tmp_path / "data"), "--job", names["large"][0]]) == 0
    assert capsys.readouterr().out.startswith("Rank 1 is late")
    assert main(["merge", str(tmp_path / "data"), "--job", names["large"][0]]) == 0
    assert "3 ranks, 48 exchanges, 16 of them joined by flows" in capsys.readouterr().out


def with_gaps(parent, exchanging=1, between=None, waits=0):
    """Write three ranks that exchange data in some steps; rank 2 is late.

    Without `between`, rank 2 computes for 6 ms longer in each step.

    Args:
        parent: the folder of the results.
        waits: how long rank 2 waits for data before it computes, ms.
        exchanging: the number of steps from one exchange to the next.
        between: the number of steps after which rank 2 evaluates for 400 ms instead; None for never.
    """
    for rank in range(RANKS):
        store, process, thread = empty(parent, rank)
        met = start = 50 * MS
        for number in range(24):
            length, waited = (10 if rank == 2 and not between else 4) * MS, waits * MS * (rank == 2)
            thread.span("next", Category.DATA, start, start + waited)
            thread.span("forward", Category.FORWARD, start + waited, start + length)
            end = start + length
            if number % exchanging == 0:
                evaluated = 400 * MS if between and (number - 1) % between == 0 and number > 1 else 0
                met += exchanging * 11 * MS + evaluated
                thread.span("AllReduce@world", Category.COMMUNICATION, end, met, arg=4_000)
                end = met
            thread.step(number, start, end)
            start = end
            if between and number % between == 0 and number and rank == 2:
                thread.span(EVALUATING, Category.FORWARD, start, start + 400 * MS)
                thread.span("Judge", Category.MODULE, start, start + 400 * MS)
                start += 400 * MS
        process.anchor(start + MS)
        store.write()


def test_excess_is_told_for_steps_and_for_steps_with_an_exchange(tmp_path, capsys):
    with_gaps(tmp_path / "data", exchanging=4)
    found = report(capsys, tmp_path / "data", "--no-files")
    (late,) = found["late"]
    assert (late["rank"], late["cause"], found["steps"], found["passed_steps"]) == (2, "computing", 5, 20)
    assert late["excess_per_step_ms"] == pytest.approx(6)
    assert late["excess_per_exchanging_step_ms"] == pytest.approx(24)
    words = "6.0 ms a step more than the others, or 24.0 ms for each of the 5 steps with an exchange."
    assert words in found["verdict"]


def test_the_time_of_the_cause_is_told_where_it_is_a_part_of_the_lateness(tmp_path, capsys):
    with_gaps(tmp_path / "data", waits=4)
    found = report(capsys, tmp_path / "data", "--no-files")
    words = "Rank 2 is late by 6.0 ms a step: it waits for its input, 4.0 ms a step more than the others."
    assert words in found["verdict"]


def test_work_between_steps_is_a_cause(tmp_path, capsys):
    with_gaps(tmp_path / "data", between=10)
    found = report(capsys, tmp_path / "data", "--no-files")
    (late,) = found["late"]
    assert (late["rank"], late["cause"], late["late_in_steps"]) == (2, "evaluation", [11, 21])
    assert late["parts_ms"]["evaluation"] == pytest.approx(800)
    assert "it evaluates between steps (Judge)" in found["verdict"]


def distilling(parent, every):
    """Write two ranks; rank 1 calls another module for 40 ms in each eighth step, and an equally long one in all steps.

    Args:
        parent: the folder of the results.
        every: whether a step that is no eighth one calls this module, too, for 1 ms.
    """
    for rank in range(2):
        store, process, thread = empty(parent, rank)
        now = 50 * MS
        for number in range(80):
            start, longer = now, 40 * MS if rank == 1 and number % 8 == 7 else every * MS
            calls = [("Net", 0, 4 * MS), ("Net.body", MS, 3 * MS), ("Teacher", 5 * MS, 5 * MS + longer)]
            for module, begin, end in calls if longer else calls[:2]:
                thread.span(module, Category.MODULE, now + begin, now + end)
                thread.span("aten::mm", Category.OP, now + begin + MS // 10, now + begin + MS // 2)
                thread.span("aten::mm", Category.OP, now + begin + MS // 2, now + end - MS // 10)
            ready = now + 6 * MS + longer
            thread.span("forward", Category.FORWARD, now, ready)
            now += 7 * MS + (40 * MS if number % 8 == 7 else MS)
            thread.span("AllReduce@world", Category.COMMUNICATION, ready, now, arg=4_000)
            thread.step(number, start, now)
        process.anchor(now + MS)
        store.write()


@pytest.mark.parametrize("every", [0, 1])
def test_the_module_of_a_rank_that_is_late_in_few_steps_is_named(every, tmp_path, capsys):
    distilling(tmp_path / "data", every)
    found = report(capsys, tmp_path / "data", "--no-files")
    (late,) = found["late"]
    assert (late["rank"], late["late_in_steps"]) == (1, list(range(7, 80, 8)))
    assert "mostly in Teacher" in late["why"]


def validating(parent, barriers):
    """Write two ranks, of which rank 0 evaluates for 800 ms after every 20th step. Then the ranks meet again.

    Only rank 0 works between the steps. So rank 1 is in its next step when it waits for rank 0.

    Args:
        parent: the folder of the results.
        barriers: the number of exchanges around an evaluation: 1 (after it) or 2 (also before it).
    """
    for rank in range(2):
        store, process, thread = empty(parent, rank)
        now = 50 * MS
        for number in range(100):
            start = begin = now
            if number % 20 == 0 and number:
                if barriers > 1:
                    thread.span("AllReduce@world", Category.COMMUNICATION, now, now + MS, arg=8)
                    now += MS
                if rank == 0:
                    thread.span(EVALUATING, Category.FORWARD, now, now + 800 * MS)
                    begin = now + 801 * MS
                met = now + 800 * MS * (rank == 0)
                now += 801 * MS
                thread.span("AllReduce@world", Category.COMMUNICATION, met, now, arg=8)
            ready = now + 4 * MS + (rank + number) % 2 * MS // 10
            thread.span("forward", Category.FORWARD, now, ready)
            now += 9 * MS
            thread.span("AllReduce@world", Category.COMMUNICATION, ready, now, arg=4_000)
            thread.step(number, begin if rank == 0 else start, now)
        process.anchor(now + MS)
        store.write()


@pytest.mark.parametrize("barriers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_evaluation_of_one_rank_between_exchanges_is_a_cause(barriers, tmp_path, capsys):
    validating(tmp_path / "data", barriers)
    found = report(capsys, tmp_path / "data", "--no-files")
    (late,) = found["late"]
    assert (late["rank"], late["cause"], late["late_in_steps"]) == (0, "evaluation", [20, 40, 60, 80])
    assert late["excess_ms"] == found["lost_ms"] == pytest.approx(4 * 800, rel=0.01)
    assert found["ranks"][1]["wait_ms"] == pytest.approx(4 * 800, rel=0.05)
    # it delays the exchange after the evaluation, and not the first one of the step
    chain = late["delays"]
    assert chain["late_ms"] == pytest.approx(800, rel=0.01)
    assert chain["number"] == chain["step"] // 20 * (20 + barriers) - 1


def test_a_machine_without_free_processors_is_told(tmp_path, capsys):
    for path in made(tmp_path / "data"):
        content = json.loads((path / "rank.json").read_text())
        content["steps"]["queued_ns"] = [3 * MS] * STEPS
        (path / "rank.json").write_text(json.dumps(content))
    found = report(capsys, tmp_path / "data", "--no-files")
    assert found["late"] == [] and found["processor_wait_share"] == pytest.approx(3 / 20)
    assert found["verdict"].endswith("Threads wait for a processor for 15% of the steps: the machine lacks processors.")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "join", "fsdp", "pipeline"])
def test_no_rank_is_named_where_all_do_equal_work(kind, tmp_path, capsys):
    options = {"start": True, "output_path": str(tmp_path / "data")}
    command = [TOOLS / "torchrun", "--nproc_per_node=4", f"--master_port={free_port()}"]
    launched([[*command, PROGRAMS / "balanced_torch.py", kind]], tmp_path, options)
    found = report(capsys, tmp_path / "data", "--no-files")
    assert found["late"] == [], found["verdict"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rank", "cause"),
    [
        ("evaluate", 2, "evaluation"),
        ("accumulate", 1, "computing"),
        ("between", 2, "host"),
        ("groups", 3, "computing"),
        ("alltoall", 1, "blocked"),
        ("checkpoint", 0, "checkpoint"),
        ("collect", 3, "garbage collection"),
    ],
)
def test_planted_late_rank_of_other_jobs(kind, rank, cause, tmp_path, capsys):
    options = {"start": True, "output_path": str(tmp_path / "data")}
    command = [TOOLS / "torchrun", "--nproc_per_node=4", f"--master_port={free_port()}"]
    launched([[*command, PROGRAMS / "odd_ranks_torch.py", kind, "48"]], tmp_path, options)
    found = report(capsys, tmp_path / "data", "--no-files")
    assert [(late["rank"], late["cause"]) for late in found["late"]] == [(rank, cause)], found["verdict"]
    # on a busy machine, the same work takes longer
    (late,) = found["late"]
    assert 0.6 <= late["excess_ms"] / 1000 / float((tmp_path / "late").read_text()) <= 1.6
    if kind == "groups":
        assert late["delays"]["waiting_ranks"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", CAUSES | LAYER)
def test_planted_late_rank_of_pytorch(kind, tmp_path, capsys):
    options = {"start": True, "output_path": str(tmp_path / "data")}
    command = [TOOLS / "torchrun", f"--nproc_per_node={RANKS}", f"--master_port={free_port()}"]
    launched([[*command, PROGRAMS / "late_ranks_torch.py", kind, "1"]], tmp_path, options)
    check(tmp_path / "data", kind, 1, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "pynative"])
@pytest.mark.parametrize("kind", CAUSES)
def test_planted_late_rank_of_mindspore(kind, mode, tmp_path, capsys):
    """The job has only two ranks, because three would need more than two processors."""
    options = {"start": True, "output_path": str(tmp_path / "data")}
    msrun(tmp_path, PROGRAMS / "late_ranks_mindspore.py", kind, 1, mode, options=options, workers=2)
    check(tmp_path / "data", kind, 1, capsys)


@pytest.mark.slow
def test_planted_late_rank_among_traces_of_real_ranks(tmp_path, capsys):
    """PyTorch's profiler leaves a second trace of each rank, of steps in which nothing ran. The ranks share a clock."""
    command = [TOOLS / "torchrun", f"--nproc_per_node={RANKS}", f"--master_port={free_port()}"]
    launched([[*command, PROGRAMS / "traced_ranks_torch.py", tmp_path / "traces", "1"]], tmp_path, None)
    assert len(list((tmp_path / "traces").iterdir())) == 2 * RANKS
    found = report(capsys, tmp_path / "traces", "--no-files")
    named = [(late["rank"], late["cause"]) for late in found["late"] if late["cause"] != "runnable"]
    assert named == [(1, "data")], found["verdict"]
    assert found["late"][0]["delays"]["operation"] == "allreduce"
    (remark,) = [text for text in found["remarks"] if "has no exchange" in text]
    assert remark.endswith(
        " and 2 more, of ranks 0, 1, 2: each has no exchange, unlike another trace of the rank; left out."
    )
    for row in found["ranks"][1:]:
        clock = row["clock"]
        assert clock["by"] == "exchanges" and abs(clock["offset_ms"]) <= clock["uncertainty_ms"]


@pytest.mark.slow
@pytest.mark.skipif(not TRACES, reason="MS_PROFILER_TEST_GPU_TRACES names no real traces")
def test_last_rank_among_traces_of_pytorch(tmp_path, capsys):
    """The second rank is a copy of a real one, changed in two ways.

    It comes later to each exchange, and its clock is four seconds ahead.

    Exchanges take 4 % of a step, so the other rank waits too briefly for the command to name a late rank.
    """
    with gzip.open(Path(TRACES) / "nccl_data.json.gz", "rt") as stream:
        trace = json.load(stream)
    (tmp_path / "rank0.pt.trace.json").write_text(json.dumps(trace))
    trace["distributedInfo"]["rank"] = 1
    for event in trace["traceEvents"]:
        if "ts" in event and event["ph"] != "M":
            event["ts"] = float(event["ts"]) + 4e6
            if event.get("cat") == "kernel" and event["name"].startswith("nccl"):
                event["ts"] += 0.8 * event["dur"]
                event["dur"] *= 0.2
    (tmp_path / "rank1.pt.trace.json").write_text(json.dumps(trace))
    found = report(capsys, tmp_path, "--no-files")
    assert found["critical"] and {row["rank"] for row in found["critical"]} == {1}
    assert found["ranks"][0]["wait_ms"] > found["ranks"][1]["wait_ms"] == 0
    clock = found["ranks"][1]["clock"]
    assert clock["by"] == "exchanges" and abs(clock["offset_ms"] - 4000) <= clock["uncertainty_ms"] < 500
