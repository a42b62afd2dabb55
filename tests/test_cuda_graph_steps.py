"""A CUDA graph that contains an optimizer's step makes a training step in each replay, and none in its capture."""

from conftest import PROGRAMS
from csv_rows import rows

REPLAYS = 20


def test_each_replay_is_a_step_and_the_capture_is_none(launch):
    bare = launch(PROGRAMS / "torch_cuda_graph.py", str(REPLAYS), profile=False)
    run = launch(PROGRAMS / "torch_cuda_graph.py", str(REPLAYS))
    assert (run.code, run.out) == (bare.code, bare.out) and run.code == 0
    assert run.summary["steps"]["count"] == 3 + REPLAYS + 2
    assert run.summary["steps"]["source"] == "optimizer_cycle"
    spans = [row for row in rows(run.result, "api_statistic") if "CUDA graph" in row["API Name"]]
    assert {row["API Name"]: int(row["Count"]) for row in spans} == {
        "capture CUDA graph": 2,
        "replay CUDA graph": 2 * REPLAYS,
    }
