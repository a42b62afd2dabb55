"""`ms-profiler cluster` names the late rank of a job with the cause, and reports the other ranks as waiting."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest
from conftest import PROGRAMS
from launches import TOOLS, free_port, launched, msrun
from ms_profiler.analysis.driver import engine
from ms_profiler.cli import main
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder

TRACES = os.environ.get("MS_PROFILER_TEST_GPU_TRACES")
#: planted fault -> reported cause
CAUSES = {
    "input": "data",
    "computing": "computing",
    "sleep": "blocked",
    "stop": "stopped",
    "none": None,
}
RANKS = 3
STEPS = 16


def made(parent, late=1, data_ms=1, failed=None):
    """Write three ranks with one exchange a step, to which one rank comes late because it waits longer for data.

    A failed rank has half of the steps.
    """
    paths = []
    for rank in range(RANKS):
        name = f"host_{rank + 1}_2026010100000012{rank}_ascend_ms"
        store = StoreBuilder(parent, name, rank=rank, world_size=RANKS, pid=rank + 1)
        process = store.process(rank + 1)
        thread = process.thread()
        thread.instant("group world ranks 0-2", Category.COMMUNICATION, 40 * MS, RANKS)
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


def told(capsys, *words):
    """Run the command and return its JSON output."""
    assert main(["cluster", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_late_rank_is_named_and_the_others_wait(tmp_path, capsys):
    paths = made(tmp_path / "data", late=1, data_ms=11)
    found = told(capsys, tmp_path / "data")
    (late,) = found["late"]
    assert (late["rank"], late["cause"], late["step"]) == (1, "data", None)
    assert late["excess_ms"] == pytest.approx(10 * (STEPS - 1), rel=0.02)
    # the others take as long as each other
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
    # the page says it first, and so does the summary of all
    for words in (["cluster", str(tmp_path / "data")], ["summary", str(tmp_path / "data")]):
        assert main(words) == 0
        assert capsys.readouterr().out.startswith("Rank 1 is late: it waits for its input")
    # of the recordings alone the same is said
    for path in paths:
        (path / "rank.json").unlink()
    again = told(capsys, tmp_path / "data", "--no-files")
    assert again == found


def test_balanced_ranks_are_not_named(tmp_path, capsys):
    made(tmp_path / "data")
    found = told(capsys, tmp_path / "data", "--no-files")
    assert found["late"] == [] and found["verdict"].startswith("No rank is late")
    assert {row["role"] for row in found["ranks"]} == {"even"}
    assert not (tmp_path / "data" / "cluster_analysis_output").exists()


def test_rank_that_failed_is_told_with_its_last_step(tmp_path, capsys):
    made(tmp_path / "data", failed=2)
    (remark,) = told(capsys, tmp_path / "data", "--no-files")["remarks"]
    assert (
        remark == f"Rank 2 ended with exception: ValueError in step {STEPS // 2 - 1}; others came to step {STEPS - 1}."
    )


def test_clocks_of_machines_may_be_seconds_apart(tmp_path, capsys):
    for rank, path in enumerate(made(tmp_path / "data", data_ms=11)):
        content = json.loads((path / "rank.json").read_text()) | {"host": f"host{rank}", "boot": str(rank)}
        for table in ("steps", "exchanges"):
            for column in ("start_ns", "end_ns"):
                content[table][column] = [time + rank * 5000 * MS for time in content[table][column]]
        (path / "rank.json").write_text(json.dumps(content))
    found = told(capsys, tmp_path / "data", "--no-files")
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
    found = told(capsys, tmp_path / "data")
    assert [late["rank"] for late in found["late"]] == [0]
    assert 2 in found["missing_ranks"]
    assert any(paths[2].name in remark for remark in found["remarks"])
    shutil.rmtree(paths[1])
    found = told(capsys, tmp_path / "data", "--no-files")
    assert found["missing_ranks"] == [1, 2] and "one rank only" in found["verdict"]


def check(directory, kind, late, capsys):
    """Check the finding; on a busy machine others may be late because they wait for a processor, and are named so."""
    found = told(capsys, directory, "--no-files")
    named = [(each["rank"], each["cause"]) for each in found["late"] if each["cause"] != "runnable"]
    assert named == ([] if CAUSES[kind] is None else [(late, CAUSES[kind])]), found["verdict"]
    if CAUSES[kind] is not None and len(found["late"]) == 1:
        assert [row["role"] for row in found["ranks"]] == [
            "late" if rank == late else "waits" for rank in range(len(found["ranks"]))
        ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", CAUSES)
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
    """PyTorch's profiler leaves a second trace of each rank, in which nothing ran. The ranks share a clock."""
    command = [TOOLS / "torchrun", f"--nproc_per_node={RANKS}", f"--master_port={free_port()}"]
    launched([[*command, PROGRAMS / "traced_ranks_torch.py", tmp_path / "traces", "1"]], tmp_path, None)
    assert len(list((tmp_path / "traces").iterdir())) == 2 * RANKS
    found = told(capsys, tmp_path / "traces", "--no-files")
    named = [(late["rank"], late["cause"]) for late in found["late"] if late["cause"] != "runnable"]
    assert named == [(1, "data")], found["verdict"]
    assert found["late"][0]["delays"]["operation"] == "allreduce"
    assert len([text for text in found["remarks"] if "has no exchange of rank" in text]) == RANKS
    for row in found["ranks"][1:]:
        clock = row["clock"]
        assert clock["by"] == "exchanges" and abs(clock["offset_ms"]) <= clock["uncertainty_ms"]


@pytest.mark.slow
@pytest.mark.skipif(not TRACES, reason="MS_PROFILER_TEST_GPU_TRACES names no real traces")
def test_last_rank_among_traces_of_pytorch(tmp_path, capsys):
    """The second rank is a copy of a real one that comes to each exchange later, with a clock four seconds ahead.

    Exchanges take 4 % of a step, so the wait of the others is too short for a late rank.
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
    found = told(capsys, tmp_path, "--no-files")
    assert found["critical"] and {row["rank"] for row in found["critical"]} == {1}
    assert found["ranks"][0]["wait_ms"] > found["ranks"][1]["wait_ms"] == 0
    clock = found["ranks"][1]["clock"]
    assert clock["by"] == "exchanges" and abs(clock["offset_ms"] - 4000) <= clock["uncertainty_ms"] < 500
