"""Train in steps of equal work while the machine slows the job down, either in all steps from the fourth on or in some.

usage: strained.py balanced|neighbours|throttled|swapping all|some
"""

import os
import subprocess
import sys

what, when = sys.argv[1:]
SLOW = range(3, 14) if when == "all" else range(6, 9)
STEPS = 14 if when == "all" else 12
group = f"/sys/fs/cgroup/cpu/ms_profiler_test_{os.getpid()}"


def write(path: str, text: str) -> None:
    """Write a text to a file of the kernel's control groups."""
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


if what == "throttled":
    os.mkdir(group)
    write(f"{group}/cpu.cfs_quota_us", "1000000")  # the quota of ten processors
    write(f"{group}/cgroup.procs", str(os.getpid()))

memory = f"/sys/fs/cgroup/memory/ms_profiler_test_{os.getpid()}"
if what == "swapping":
    os.mkdir(memory)
    write(f"{memory}/cgroup.procs", str(os.getpid()))

import torch  # noqa: E402

torch.set_num_threads(1)
model = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), 0.001)
data = torch.randn(512, 512)
neighbours: list["subprocess.Popen[bytes]"] = []
held = torch.ones(100 << 20 if what == "swapping" else 1)


def strain(on: bool) -> None:
    """Begin or stop to slow the job down."""
    if what == "neighbours":
        for _ in range(2 * (os.cpu_count() or 1) if on else 0):
            code = "import time\nend = time.time() + 60\nwhile time.time() < end: pass"
            neighbours.append(subprocess.Popen([sys.executable, "-S", "-E", "-c", code]))
        while neighbours and not on:
            neighbours[-1].kill()
            neighbours.pop().wait()
    if what == "throttled":
        write(f"{group}/cpu.cfs_quota_us", "40000" if on else "1000000")
    if what == "swapping":
        write(f"{memory}/memory.limit_in_bytes", str(350 << 20 if on else 4 << 30))


try:
    for step in range(STEPS):
        if step == SLOW.start:
            strain(True)
        if step == SLOW.stop:
            strain(False)
        for _ in range(60):
            loss = model(data).pow(2).mean()
            loss.backward()
        held.add_(1.0)
        optimizer.step()
        optimizer.zero_grad()
finally:
    strain(False)
    if what == "throttled":
        write("/sys/fs/cgroup/cpu/cgroup.procs", str(os.getpid()))
        os.rmdir(group)
    if what == "swapping":
        write("/sys/fs/cgroup/memory/cgroup.procs", str(os.getpid()))
