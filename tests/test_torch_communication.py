"""PyTorch's collectives between two real ranks are recorded, in direct calls and in data-parallel training."""

import inspect
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from conftest import PROGRAMS, environment
from events import events, named, of, steps
from launches import TOOLS, free_port
from ms_profiler.job.frameworks.torch import communication, ranks, tensors
from ms_profiler.store.format import Category, Kind
from ms_profiler.store.names import GRADIENTS

COMMON = [
    ("AllReduce@0", 16),
    ("AllGather@0", 16),
    ("AllGather@0", 16),
    ("ReduceScatter@0", 32),
    ("AllReduce@1", 16),
    ("wait for communication", 0),
    ("Broadcast@0", 16),
    ("Reduce@0", 16),
    ("AllToAll@0", 8),
    ("Gather@0", 16),
]
#: exchanges of FSDP in a step: each rank's half of the 4 * 4 + 4 + 4 * 2 + 2 weights, and the gradients of all weights
SHARDED = [("AllGather@0", 60), ("ReduceScatter@0", 120)]


PROGRAM = PROGRAMS / "torch_ranks.py"
PARTS = ("collectives", "replicas", "shards")
VARIABLES = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def computed(directory):
    """Return the results that the two ranks wrote."""
    return [(directory / f"rank_{rank}").read_text() for rank in range(2)]


def bare(directory):
    """Run the program on two ranks, without the profiler and without a launcher; return their results."""
    directory.mkdir()
    common = VARIABLES | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        subprocess.Popen(
            [sys.executable, PROGRAM, directory, *PARTS], env=environment(RANK=str(rank), **common), cwd=directory
        )
        for rank in range(2)
    ]
    assert [rank.wait(200) for rank in ranks] == [0, 0]
    return computed(directory)


def torchrun(directory, options):
    """Run the program on two ranks with the profiler; return their results, and stderr."""
    directory.mkdir()
    command = [TOOLS / "torchrun", "--nproc_per_node=2", f"--master_port={free_port()}"]
    path = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, PROGRAM, directory, *PARTS],
        env=environment(options, PATH=path, MS_PROFILER_RAISE="1", **VARIABLES),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return computed(directory), done.stderr


@pytest.mark.slow
def test_collectives_between_two_ranks(tmp_path):
    output = tmp_path / "data"
    results, err = torchrun(tmp_path / "profiled", {"start": True, "output_path": str(output), "analyse": "off"})
    assert results == bare(tmp_path / "bare")
    assert len([line for line in err.splitlines() if line.startswith("ms-profiler: ")]) == 2, err

    found = {}
    for result in output.glob("*_ascend_ms"):
        seen = events(result)
        (rank,) = (event for event in seen if event.name.startswith("rank "))
        assert rank.name == f"rank {rank.arg} of 2"
        found[rank.arg] = seen
    assert sorted(found) == [0, 1]
    for rank, seen in found.items():
        calls = [event for event in seen if event.category == Category.COMMUNICATION and event.kind == Kind.SPAN]
        work = [call for call in calls if call.name.startswith("gloo:")]
        exchanged = [(call.name, call.arg) for call in calls if call not in work]
        message = [("Scatter@0", 32), ("Send@0", 16)] if rank == 0 else [("Scatter@0", 0), ("Receive@0", 16)]
        assert exchanged[: len(COMMON) + 2] == COMMON + message
        # The script waits for a message inside its region "message"; the record of the message lies in this region.
        (around,) = named(seen, "message")
        (inside,) = (call for call in calls if around.start < call.start < around.end)
        assert inside.name == message[1][0] and inside.end < around.end
        assert [call for call in exchanged if call in SHARDED] == SHARDED * 3
        assert exchanged.count(("Barrier@0", 0)) == 1
        assert {("Send@0", 16), ("Receive@0", 16)} <= set(exchanged)  # `send` and `receive` in one call
        groups = [(event.name, event.arg) for event in seen if event.name.startswith("group ")]
        assert groups == [("group 0 ranks 0,1", 2), ("group 1 ranks 0,1", 2)]
        # the bytes of the gradients of 30 weights, with the name of the replicated module
        (told_bytes,) = (event for event in seen if event.name.startswith(GRADIENTS))
        assert (told_bytes.name, told_bytes.arg) == (f"{GRADIENTS}Sequential", 120)
        # three steps with replicas, three with shards; modules have the names of the inner modules
        assert len(steps(seen)) == 6
        modules = of(seen, Category.MODULE)
        assert (modules["DistributedDataParallel"], modules["Sequential"], modules["FSDPSequential"]) == (3, 3, 3)
        # exchanges of replicas begin in C++ during a backward pass, and run on threads of gloo
        passes = [event for event in seen if event.category == Category.BACKWARD]
        beside = [
            [call.name for call in work if around.start < call.start < around.end and call.thread != around.thread]
            for around in passes
        ]
        assert beside[:3] == [["gloo:all_reduce"]] * 3
        # the exchanges of compiled code are inside the graph, where none of our functions is called
        assert of(seen, Category.GRAPH) == {"graph train.<locals>.<lambda>": 2}


REPLICA = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(20))))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(70):
    optimizer.zero_grad()
    net(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_exchanges_of_replicas_are_sampled_with_operators(job):
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    run = job(REPLICA, options={"overhead_budget": 0.001}, env=VARIABLES | alone, timeout=60)
    assert run.code == 0, run.err
    exchanged = [event for event in events(run.result) if event.name == "gloo:all_reduce"]
    assert 0 < len(exchanged) < 70
    assert run.summary["sampling"]["sampled"] < 70


JOINED = """
import datetime
import torch
print("_c10d_functional" in vars(torch.ops))
import torch.distributed as dist
late = torch.library.Library("_dtensor", "FRAGMENT")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
x, group = torch.ones(4), dist.group.WORLD.group_name
own = torch.ops._c10d_functional
print(own.wait_tensor(own.all_reduce(x, "sum", group)).tolist())
late.define("broadcast(Tensor x, str group) -> Tensor")
late.impl("broadcast", lambda x, group: x + 1, "CPU")
import torch.distributed.tensor
print(torch.ops._dtensor.broadcast(x, group).tolist())
dist.destroy_process_group()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
print(own.wait_tensor(own.all_reduce(x, "sum", group)).tolist())
class Inherits(dist._Work): pass
try:
    Inherits().wait(datetime.timedelta(milliseconds=1))
except RuntimeError as error:
    print(type(error))
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_operators_are_looked_up_when_there_is_a_group_and_those_of_later_imports_too(job):
    """A class of the script that inherits from PyTorch's `_Work` has the `wait` of C++."""
    bare = job(JOINED, profile=False)
    run = job(JOINED, options={"analyse": "off", "quiet": True}, env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out, run.err) == (0, bare.out, bare.err)
    assert bare.out.startswith("False\n"), "nobody else looks them up"
    seen = [event for event in events(run.result) if event.kind == Kind.SPAN and "@" in event.name]
    assert [(event.name, event.arg) for event in seen] == [
        ("AllReduce@0", 16),
        ("Broadcast@0", 16),
        ("AllReduce@0", 16),
    ]


def test_bytes_are_those_of_the_input():
    import torch

    class MadeUp(torch.Tensor):
        """A tensor subclass whose size only the script's code can compute."""

        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(cls, (2, 3))

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise AssertionError(function)

    tensor = torch.zeros(2, 3)
    assert tensors.size(tensor) == tensors.size(torch.nn.Parameter(tensor)) == 24
    assert tensors.size([tensor, (tensor, None)]) == 48
    assert tensors.size(None) == tensors.size(MadeUp()) == 0


@pytest.mark.parametrize("name", communication.KINDS)
def test_inputs_are_parameters(name):
    """Each named input is a parameter of its function; with an unknown name, the bytes would always be zero."""
    import torch.distributed as dist

    kind, given = communication.KINDS[name]
    assert kind and (not given or given in inspect.signature(getattr(dist, name)).parameters)


@pytest.mark.parametrize("new", [True, False])
def test_functions_that_pytorch_compares_are_left_alone_where_the_script_may_hold_them(monkeypatch, new):
    """A script that imported `isend` before the profiler began may pass it to PyTorch, which compares functions."""
    import torch

    monkeypatch.setattr(ranks, "_last", None)
    monkeypatch.setattr(torch.__spec__, "_initializing", new)
    host = SimpleNamespace(recorder=None, at_start=lambda call: None)
    paths = {target.path for target in communication.targets(host)}
    assert "all_reduce" in paths
    assert paths.issuperset(communication.QUEUED) is new and paths.isdisjoint(communication.QUEUED) is not new


class Distributed:
    """The functions of torch.distributed that describe groups, as they are until PyTorch 2.7."""

    whole = SimpleNamespace(group_name="0")

    @staticmethod
    def is_initialized():
        return True

    @classmethod
    def _get_default_group(cls):
        return cls.whole

    @classmethod
    def get_process_group_ranks(cls, group):
        return {cls.whole.group_name: [0, 1]}[group.group_name]

    @staticmethod
    def get_rank():
        return 1

    @staticmethod
    def get_world_size():
        return 2


def test_the_ranks_of_the_default_group_come_from_the_group(monkeypatch):
    noted = []
    monkeypatch.setitem(sys.modules, ranks.DISTRIBUTED, Distributed)
    monkeypatch.setattr(ranks, "Notes", lambda session: SimpleNamespace(add=lambda text, number: noted.append(text)))
    assert ranks.Groups(None).name(None) == "0"
    assert noted == ["rank 1 of 2", "group 0 ranks 0,1"]
