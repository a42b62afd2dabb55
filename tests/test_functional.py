"""Exchanges of DTensor, sharding and compiled graphs have the group and the bytes of PyTorch's flight recorder."""

import json
from pathlib import Path

import polars as pl
import pytest
from conftest import PROGRAMS
from csv_rows import rows
from events import events
from launches import TOOLS, free_port, launched
from ms_profiler.analysis.cluster import gathering
from ms_profiler.cli import main
from ms_profiler.store.format import Category, Kind

#: gloo has no reduce-scatter and calls an all-reduce in its place
MADE_BY = {"reducescatter": "allreduce"}
#: microseconds by which the program makes rank 1 late in each step
LATE_US = 100_000


@pytest.mark.slow
def test_only_calls_that_exchange_data_are_recorded(job, tmp_path):
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    variables = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    program = PROGRAMS / "functional_torch.py"
    run = job(program, tmp_path / "computed", env=variables | alone, options={"overhead_budget": 0}, timeout=200)
    assert run.code == 0, run.err
    computed = json.loads((tmp_path / "computed").read_text())
    assert computed.pop("counted") == 1 and computed.pop("known") is True
    assert computed.pop("script") == [1.0] * 4 and all(value == [2.0] * 4 for value in computed.values())
    seen = [
        event for event in events(run.result) if event.kind == Kind.SPAN and event.category == Category.COMMUNICATION
    ]
    assert [(event.name, event.arg) for event in seen if "@" in event.name] == [("AllReduce@0", 16)] * 9
    assert not [name for name in run.summary["hooks"] if "ops._" in name]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tensor", "both", "fully_shard", "fsdp", "functional", "compiled"])
def test_exchanges_are_those_of_the_flight_recorder(kind, tmp_path):
    options = {"start": True, "output_path": str(tmp_path / "data"), "overhead_budget": 0}
    ranks = 4 if kind == "both" else 2
    command = [TOOLS / "torchrun", f"--nproc_per_node={ranks}", f"--master_port={free_port()}"]
    launched([[*command, PROGRAMS / "sharded_torch.py", tmp_path, kind]], tmp_path, options)
    results = sorted((tmp_path / "data").glob("*_ascend_ms"))
    assert len(results) == ranks
    for path in results:
        account = gathering.read(str(path))
        truth = json.loads((tmp_path / f"truth_{account.rank}.json").read_text())
        assert account.steps.height == len(truth["steps"])
        for step, computed in zip(account.steps["step"], truth["steps"], strict=True):
            found = account.exchanges.filter(pl.col("step") == step).select("operation", "group", "bytes").rows()
            ours = [(MADE_BY.get(name, name), group, size) for name, group, size in found]
            assert ours == [(name.replace("_", ""), group, size) for name, group, size in computed] and computed


@pytest.mark.slow
def test_wait_for_a_late_rank_of_a_divided_layer_is_communication(tmp_path, capsys):
    options = {"start": True, "output_path": str(tmp_path / "data"), "overhead_budget": 0}
    command = [TOOLS / "torchrun", "--nproc_per_node=2", f"--master_port={free_port()}"]
    launched([[*command, PROGRAMS / "sharded_torch.py", tmp_path, "late"]], tmp_path, options)
    assert main(["cluster", str(tmp_path / "data"), "--json", "--no-files"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [late["rank"] for late in found["late"]] == [1], found["verdict"]
    assert [row["role"] for row in found["ranks"]] == ["waits", "late"]
    directory = {row["rank"]: Path(row["directory"]) for row in found["ranks"]}[0]
    steps = rows(directory, "step_trace_time")[1:]  # rank 0 waits for most of a step, when busy for half of it
    waited = sum(float(row["Communication(Not Overlapped)"]) for row in steps)
    assert waited > 0.5 * LATE_US * len(steps)
    assert sum(float(row["Overlapped"]) for row in steps) < 0.1 * waited
