"""Collectives are recorded with their kind, group and bytes."""

import pytest
from conftest import PROGRAMS
from events import events, named, of
from launches import msrun
from ms_profiler.job.frameworks import notes
from ms_profiler.job.frameworks.mindspore import communication, tensors
from ms_profiler.store.format import Category, Kind

WORLD = "mccl_world_group"
SMALL, WIDE = 2 * 3 * 4, 4 * 3 * 4
#: (kind, group, bytes of the input) of each call in allreduce.py, in order
REAL = [
    ("AllReduce", WORLD, SMALL),
    ("AllGather", WORLD, SMALL),
    ("Broadcast", WORLD, SMALL),
    ("AllReduce", "pair", SMALL),
    ("AllReduce", WORLD, 4 * 2),
    ("AllReduce", WORLD, 4 * 4),
]
REPLACED = [
    ("ReduceScatter", WORLD, WIDE),
    ("Reduce", WORLD, SMALL),
    ("Scatter", WORLD, WIDE),
    ("Gather", WORLD, SMALL),
    ("Barrier", WORLD, 0),
    ("Send", WORLD, SMALL),
    ("Receive", WORLD, 0),
    ("AllReduce", WORLD, SMALL),
    ("AllReduce", WORLD, SMALL),
    ("AllGather", WORLD, SMALL),
    ("ReduceScatter", WORLD, WIDE),
    ("Send", WORLD, SMALL),
    ("Receive", WORLD, 0),
    ("AllGather", WORLD, SMALL),
    ("AllGather", WORLD, SMALL),
    ("ReduceScatter", WORLD, 2 * SMALL),
    ("ReduceScatter", WORLD, WIDE),
    ("Broadcast", WORLD, SMALL),
    ("Reduce", WORLD, SMALL),
    ("Scatter", WORLD, 2 * SMALL),
    ("Gather", WORLD, SMALL),
    ("AllToAll", WORLD, 2 * SMALL),
    ("AllToAll", WORLD, WIDE),
    ("Receive", WORLD, SMALL),
    ("BatchSendReceive", WORLD, SMALL),
    ("Barrier", WORLD, 0),
    ("AllReduce", "pair", SMALL),
]


#: Rank 0 sends ones and rank 1 sends twos, six or four of them. LOSSES are those of rank 0. The network's six outputs
#: begin at 3. All gradients are constant, on average 3 for a weight and 2 for a bias.
SUMS = [18, 18, 6, 18, 12, 12]
LOSSES = [6 * (3 * (1 - 0.5 * 3 * step) - 0.5 * 2 * step) for step in range(4)]


@pytest.mark.slow
def test_collectives_of_all_families_on_two_ranks(tmp_path):
    output = tmp_path / "data"
    options = {"start": True, "output_path": str(output), "analyse": "off"}
    lines, _ = msrun(tmp_path, PROGRAMS / "allreduce.py", options=options)
    assert [float(line) for line in lines if not line.startswith("ms-profiler: ")] == SUMS + LOSSES
    results = sorted(output.glob("*_ascend_ms"))
    assert len(results) == 2
    for result in results:
        found = events(result)
        calls = [event for event in found if event.category == Category.COMMUNICATION and "@" in event.name]
        spans = [event for event in calls if event.kind == Kind.SPAN]
        expected = [(f"{kind}@{group}", size) for kind, group, size in REAL + REPLACED]
        assert [(span.name, span.arg) for span in spans] == expected
        groups = [event for event in found if event.name.startswith("group ")]
        assert [(event.kind, event.name, event.arg) for event in groups] == [
            (Kind.INSTANT, f"group {WORLD} ranks 0,1", 2),
            (Kind.INSTANT, "group pair ranks 0,1", 2),
        ]
        # a graph reduces the gradients of the four steps; its exchanges are read when MindSpore compiles it
        exchanges = {event.name: event.arg for event in found if event.name.startswith("exchange ")}
        assert exchanges == {
            f"exchange AllReduce@{WORLD} of 3,3 by Default/AllReduce-op0": 3 * 3 * 4,
            f"exchange AllReduce@{WORLD} of 3 by Default/AllReduce-op1": 3 * 4,
        }
        (rank,) = (event for event in found if event.name.startswith("rank "))
        assert rank.name == f"rank {rank.arg} of 2"
        assert len(named(found, "wait for communication")) == 1
        assert of(found, Category.OPTIMIZER) == {"SGD": 4}


@pytest.mark.parametrize(
    ("primitive", "kind"),
    [
        ("AllReduce", "AllReduce"),
        ("AllGatherV", "AllGather"),
        ("ReduceScatter", "ReduceScatter"),
        ("Reduce", "Reduce"),
        ("InnerCommAllToAllV", "AllToAll"),
        ("AlltoAllVC", "AllToAll"),
        ("DistCommGatherIntoTensor", "Gather"),
        ("DistCommScatterTensor", "Scatter"),
        ("DistCommBatchIsendIrecv", "BatchSendReceive"),
        ("InnerCommIrecv", "Receive"),
        ("NeighborExchange", ""),
    ],
)
def test_kinds_of_primitives(primitive, kind):
    assert communication.kind_of(primitive) == kind


def test_long_lists_of_ranks_become_ranges():
    assert notes.ranges([0, 2, 1]) == "0,2,1"
    assert notes.ranges([*range(4000), 5000, *range(6000, 6002)]) == "0-3999,5000,6000-6001"


class Tensor:
    _shape, _itemsize, dtype = (property(lambda self, value=value: value) for value in ((2, 3), 4, "Float32"))

    def asnumpy(self):
        raise AssertionError("a value was read")


def test_bytes_come_from_shape_and_type_alone():
    assert tensors.size(Tensor()) == 24
    assert tensors.size([Tensor(), (Tensor(), 7), None]) == 48
    assert tensors.size(7) == 0
