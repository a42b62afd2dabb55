"""A failing file system, and the kernel's limits for a process, do not change the job."""

import errno
import functools
import os

import pytest
from fakes_built import build_one

#: program that trains and forks workers, and prints the results of its children and of its training
JOB = """
import os, resource, sys
import torch
which = sys.argv[1]
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
torch.manual_seed(1)
if which == "files":
    used = len(os.listdir("/proc/self/fd")) - 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))
if which == "memory":
    pages = int(open("/proc/self/statm").read().split()[0])
    size = pages * os.sysconf("SC_PAGE_SIZE") + (64 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
for number in range(400):
    loss = model(torch.ones(8, 16)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if which == "fork":
    sys.stdout.flush()
    for _ in range(3):
        child = os.fork()
        if not child:
            loss = model(torch.ones(8, 16)).square().sum()
            loss.backward()
            print("child", loss.item(), flush=True)
            os._exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
print(number, loss.item())
"""


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """Return the library that makes calls for files of the result fail."""
    return build_one(tmp_path_factory.mktemp("disk"), "libdisk.so", ("disk.c",))


@pytest.fixture(scope="module")
def bare(launch):
    """Return a function that returns the run without a profiler for a kind of job."""
    return functools.cache(lambda kind: launch(JOB, kind, profile=False))


def unharmed(run, bare):
    """Check that a job ended like the bare one; PyTorch's own errors count only as often as in the bare run."""
    assert (run.code, run.out) == (bare.code, bare.out) and bare.code == 0, run.err
    assert run.err.count("Traceback") == bare.err.count("Traceback"), run.err
    if not bare.err:
        assert len(run.lines) == len(run.err.splitlines()), run.err


@pytest.mark.parametrize(
    ("number", "after", "options"),
    [
        (errno.EROFS, 0, {}),
        pytest.param(errno.EIO, 30, {"analyse": "sync", "with_stack": "sample"}, marks=pytest.mark.slow),
        *(
            pytest.param(number, after, {"analyse": analyse}, marks=pytest.mark.slow)
            for number in (errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOSPC)
            for after in (0, 1, 3, 6, 12, 20, 40)
            for analyse in ("sync", "off")
        ),
    ],
)
def test_a_file_system_that_fails_harms_no_job(job, disk, bare, tmp_path, number, after, options):
    fault = {"DISK_FOLDER": str(tmp_path / "data"), "DISK_ERROR": str(number), "DISK_AFTER": str(after)}
    run = job(JOB, "fork", options={"analyse": "off"} | options, env={"LD_PRELOAD": str(disk), **fault})
    unharmed(run, bare("fork"))
    assert any(os.strerror(number) in line for line in run.lines), run.err


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["files", "memory"])
def test_limits_of_a_process_that_are_used_up_harm_no_job(job, bare, limit):
    run = job(JOB, limit, options={"analyse": "sync"})
    unharmed(run, bare(limit))
    assert run.results, "it was profiled"
