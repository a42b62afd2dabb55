"""A CUDA graph that contains an optimizer's step makes a training step in each replay, and none in its capture."""

from conftest import PROGRAMS
from csv_rows import rows

REPLAYS = 20


def test_each_replay_is_a_step_and_no_capture_is_one(launch):
    bare = launch(PROGRAMS / "torch_cuda_graph.py", str(REPLAYS), profile=False)
    run = launch(PROGRAMS / "torch_cuda_graph.py", str(REPLAYS))
    assert (run.code, run.out) == (bare.code, bare.out) and run.code == 0
    assert not [line for line in run.lines if "failed" in line]
    # before the captures, replays of one step, replays of four steps, after each of the two failed captures
    assert run.summary["steps"]["count"] == 3 + REPLAYS + 5 + 2 + 2
    assert run.summary["steps"]["source"] == "optimizer_cycle"
    spans = [row for row in rows(run.result, "api_statistic") if "CUDA graph" in row["API Name"]]
    counts = {row["API Name"]: int(row["Count"]) for row in spans}
    assert counts["replay CUDA graph"] == 2 * REPLAYS + 5 and counts["capture CUDA graph"] >= 4
