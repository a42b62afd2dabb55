"""Exchanges come from MindSpore's description of a graph, and the rank comes from the running job."""

import json
import os
import sys

import pytest
from conftest import PROGRAMS
from graph_builder import FLOAT16, FLOAT32, field, model, node, tensor
from launches import TOOLS, free_port, launched, printed
from ms_profiler.job.frameworks.mindspore import exchanges
from ms_profiler.job.frameworks.mindspore.exchanges import Exchange


def test_collectives_of_a_graph():
    several = field(3, field(1, tensor(FLOAT16, 5)) + field(1, tensor(FLOAT16)))
    description = model(
        node("1", "MatMul", ["x"], tensor(FLOAT32, 128, 64), "Default/MatMul-op0"),
        node("2", "AllReduce", ["1"], tensor(FLOAT32, 128, 64), "Default/AllReduce-op0", op="sum", group="world"),
        node("3", "AllGather", ["x"], tensor(FLOAT16, 6, 3), "Default/AllGather-op0", group="pair"),
        node("4", "MakeTuple", [], several),
        node("5", "AllReduce", ["4", "unknown"], several, "Default/AllReduce-op1", group="world"),
        node("6", "AllReduce", ["y"], tensor(FLOAT32, -1), "Default/AllReduce-op2", group="world"),
        # these two nodes are not collectives
        node("7", "ReduceSum", ["x"], tensor(FLOAT16, 1), "Default/ReduceSum-op0"),
        node("8", "Add", ["x"], tensor(FLOAT16, 1), "Default/Add-op0", group="world"),
        parameters=[("x", tensor(FLOAT16, 3, 3)), ("y", tensor(FLOAT32, -1, 4))],
    )
    assert exchanges.exchanges(description) == [
        Exchange("Default/AllReduce-op0", "AllReduce", "world", "128,64", 128 * 64 * 4),
        Exchange("Default/AllGather-op0", "AllGather", "pair", "3,3", 18),
        Exchange("Default/AllReduce-op1", "AllReduce", "world", "5;", 12),
        Exchange("Default/AllReduce-op2", "AllReduce", "world", "-1,4", 0),
    ]


def test_a_graph_without_collectives_is_not_parsed():
    assert exchanges.exchanges(b"\xff" * 100) == []


@pytest.mark.parametrize("damage", [b"\xff", b"\x0a\x05ab", b"\x0b", b"\x80" * 11, b"\x09abc"])
def test_a_damaged_description_is_an_error(damage):
    with pytest.raises(ValueError, match=r"cut off|wire type"):
        exchanges.exchanges(field(2, "AllReduce") + damage)


def test_kinds_that_are_skipped():
    message = field(1, 5) + b"\x11" + bytes(8) + b"\x1d" + bytes(4) + field(4, "text")
    assert list(exchanges.fields(message)) == [
        (1, (5).to_bytes(8, "little")),
        (2, bytes(8)),
        (3, bytes(4)),
        (4, b"text"),
    ]


#: msrun as on another node than the scheduler's; it recognises the scheduler's node by this host's addresses
OTHER_NODE = """
import sys
import mindspore.parallel.cluster.process_entity._api as api
from mindspore.parallel.cluster.run import main

api._is_local_ip = lambda address: False
sys.argv[0] = "msrun"
main()
"""


@pytest.mark.slow
def test_ranks_that_the_launcher_does_not_know(tmp_path):
    """With two nodes of two workers and without --node_rank, msrun gives all workers the same rank, or none."""
    (tmp_path / "other.py").write_text(OTHER_NODE)
    common = ["--worker_num=4", "--local_worker_num=2", f"--master_port={free_port()}", "--join=True"]
    program = [PROGRAMS / "data_parallel.py", "graph", "3"]
    launched(
        [
            [TOOLS / "msrun", *common, f"--log_dir={tmp_path / 'node_0'}", *program],
            [sys.executable, tmp_path / "other.py", *common, f"--log_dir={tmp_path / 'node_1'}", *program],
        ],
        tmp_path,
        {"start": True, "output_path": str(tmp_path / "data"), "ranks": "2"},
    )
    lines = [
        line for node in (0, 1) for worker in (0, 1) for line in printed(tmp_path / f"node_{node}/worker_{worker}.log")
    ]
    assert sorted(line[:11] for line in lines if line.startswith("rank ")) == [f"rank {rank} of 4" for rank in range(4)]
    ranks = []
    for path in (tmp_path / "data").glob("*_ascend_ms"):
        summary = json.loads((path / "summary.json").read_text())
        assert os.path.exists(path / f"profiler_info_{summary['rank']}.json")
        assert summary["world_size"] == 4
        assert [item["what"] for item in summary["not_collected"] if "rank" in item["what"]] == ["the choice of ranks"]
        content = json.loads((path / "ASCEND_PROFILER_OUTPUT" / "communication.json").read_text())
        assert len(content) == 3
        ranks.append(summary["rank"])
    assert sorted(ranks) == [0, 1, 2, 3]
