"""A job that replaces functions of the system, like tests, sees no call of ms-profiler, and misleads none of them."""

import ast
import re
from pathlib import Path

import ms_profiler.job
import ms_profiler.log
import ms_profiler.store
import pytest
from unharmed import unharmed

MOCKED = """
from unittest import mock

import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train():
    for _ in range(600):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

with open("mine.txt", "w") as mine:
    # a mock as a number is 1, the descriptor of stdout
    with mock.patch("os.open") as first, mock.patch("os.close"), mock.patch("os.pread") as read:
        train()
    with mock.patch("os.open", return_value=mine.fileno()) as second:
        train()
    mine.write("mine")
with mock.patch("builtins.open", mock.mock_open(read_data="lr=3")) as opened:
    train()
    open("settings").read()
opened.assert_called_once_with("settings")
print(first.call_count, second.call_count, read.call_count, open("mine.txt").read())
"""


def test_a_mock_is_called_by_the_job_alone(job):
    run = job(MOCKED, env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out) == (0, "0 0 0 mine\n"), run.err
    assert run.summary["steps"]["count"] == 1800
    assert run.summary["hooks"]["failed"] == {}


#: functions that the job replaces by mocks: a mock returns nonsense, and counts its calls
REPLACED = """
import contextlib
from unittest import mock

import torch

names = [
    *(f"os.{name}" for name in "getpid getppid makedirs mkdir stat lstat fstat walk scandir listdir access".split()),
    *(f"os.{name}" for name in "cpu_count getcwd link chmod truncate statvfs pipe posix_spawn waitpid kill".split()),
    *(f"os.{name}" for name in "open close read write pwrite rename replace unlink fork strerror urandom".split()),
    *(f"os.path.{name}" for name in "exists isdir isfile join dirname basename abspath realpath getsize".split()),
    *(f"time.{name}" for name in "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns sleep".split()),
    *(f"time.{name}" for name in "clock_gettime clock_gettime_ns strftime gmtime localtime process_time".split()),
    *(f"threading.{name}" for name in "Thread Lock RLock Event Condition get_ident get_native_id".split()),
    *(f"threading.{name}" for name in "current_thread main_thread enumerate setprofile".split()),
    *(f"json.{name}" for name in "dump dumps load loads".split()),
    "socket.gethostname", "subprocess.Popen", "subprocess.run", "shutil.copyfile", "glob.glob", "gc.collect",
]
for name in names:
    __import__(name.split(".")[0])
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters())
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(40, 4)), batch_size=2)

def train(epochs):
    for _ in range(epochs):
        for (batch,) in data:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()

for epochs in (0, 1, 20):  # from the first step on, and later
    train(epochs)
    with contextlib.ExitStack() as stack:
        mocks = {name: stack.enter_context(mock.patch(name)) for name in names}
        train(2)
    print([(name, each.call_count) for name, each in mocks.items() if each.call_count])
"""


@pytest.mark.slow
def test_mocks_of_functions_of_the_system_neither_mislead_us_nor_count_our_calls(launch):
    bare = launch(REPLACED, profile=False)
    run = launch(REPLACED, env={"MS_PROFILER_RAISE": "1"}, options={"activities": ["CPU"], "record_shapes": True})
    unharmed(run, bare)
    assert run.out == "[]\n" * 3
    summary = run.summary
    assert summary["steps"]["count"] == 27 * 20
    assert summary["hooks"]["failed"] == {}


def looked_up(text):
    """Return the functions of the system that a module calls as attributes, such as `os.getpid` or `time.sleep`."""
    calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    names = {ast.unparse(call) for call in calls if isinstance(call, (ast.Attribute, ast.Name))}
    return {name for name in names if name.partition(".")[0] in REPLACEABLE and not name.startswith(KEPT)}


#: modules whose functions tests replace
REPLACEABLE = {"os", "time", "threading", "json", "socket"}
#: no test replaces the first two; the environment is that of the job
KEPT = ("os.fsencode", "os.fsdecode", "os.environ.")


@pytest.mark.parametrize("path", [ms_profiler.log.__file__, ms_profiler.job.__file__, ms_profiler.store.__file__])
def test_no_module_of_the_job_side_looks_up_a_function_that_a_job_may_replace(path):
    """`posix` has the same functions as `os`, and `_io` the same `open`, but no test replaces them there."""
    path = Path(path)
    for each in sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]:
        text = each.read_text()
        if each.name != "probe.py":  # runs in a process of its own
            assert not looked_up(text), each
        if re.search(r"(?m)^(?!\s*def ).*(?<![\w.])open\(", re.sub(r'"""[\s\S]*?"""', "", text)):
            assert "from _io import open" in text, each


FROZEN = """
import sys, time

import torch

def frozen():
    return 1e9

real = {id(time.time), id(time.monotonic), id(time.perf_counter)}
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for module in list(sys.modules.values()):  # as freezegun does
    for name in [name for name, value in vars(module).items() if id(value) in real]:
        setattr(module, name, frozen)
for _ in range(20):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    torch.cumsum(torch.ones(500_000), 0)
    optimizer.step()
print(time.time(), time.monotonic())
"""


@pytest.mark.slow
def test_where_the_job_stops_the_time_steps_have_their_length(job):
    run = job(FROZEN)
    assert (run.code, run.out) == (0, "1000000000.0 1000000000.0\n"), run.err
    run = run.summary
    assert run["steps"]["count"] == 20 and 0.1 < run["steps"]["median_ms"] < 1000, run["steps"]


@pytest.mark.slow
def test_hooks_and_loaders_of_the_job_hold_what_the_job_gave_them(job):
    program = """
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
handles = [model.register_forward_hook(lambda *_: None), optimizer.register_step_post_hook(lambda *_: None)]
handles += [register_optimizer_step_pre_hook(lambda *_: print("stepped"))]
for _ in range(3):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
handles.pop().remove()
for _ in range(3):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
print([handle.id for handle in handles])

def own(*_):
    return None

data, lines, generator = [torch.ones(1)] * 4, torch.utils.data.SequentialSampler(range(4)), torch.Generator()
settings = {"sampler": lines, "collate_fn": torch.stack, "worker_init_fn": own, "generator": generator}
for workers in (0, 1):
    loader = torch.utils.data.DataLoader(data, 2, num_workers=workers, **settings)
    batches = iter(loader)
    print(len(list(batches)), loader.dataset is data, batches._collate_fn is torch.stack)
    print([getattr(loader, name) is value for name, value in settings.items()])
model.register_full_backward_hook(own)
weight = model.weight.register_hook(own)
for _ in range(2):
    model(torch.ones(1, 2, requires_grad=True)).sum().backward()
    optimizer.step()
print(list(model._backward_hooks.values()) == list(model.weight._backward_hooks.values()) == [own])
print(sorted(vars(model)), sorted(vars(optimizer)), sorted(vars(loader)))
"""
    bare, run = job(program, profile=False), job(program)
    assert (run.code, run.out) == (0, bare.out), run.err
    assert run.summary["steps"]["count"] == 8
