"""Record real jobs whose results together have every kind of record, on the processor and with made-up devices."""

import os

from conftest import PROGRAMS, launcher
from fakes_built import ASCEND, COUNTERS, FAKES, attached, build, loading

#: As little as possible that the analysis can read, but all of it written by a job.
TORCH = """
import torch
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.arange(8.0) * index
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)
    def forward(self, x):
        return self.inner(x).tanh()
net = torch.nn.Sequential(Block(), Block())
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for batch in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1):
    loss = net(batch).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    loss.item()
"""
MINDSPORE = """
import time
import numpy as np
import mindspore as ms
from mindspore import nn
ms.set_context(mode=ms.PYNATIVE_MODE)
def rows():
    for number in range(40):
        time.sleep(0.002)  # so that the pipeline is sampled
        yield (np.full(8, number, np.float32),)
ms.dataset.config.set_monitor_sampling_interval(10)
data = ms.dataset.GeneratorDataset(rows, ["x"], shuffle=False).map(lambda row: row + 1, ["x"]).batch(4)
net = nn.SequentialCell(nn.Dense(8, 8), nn.ReLU(), nn.Dense(8, 2))
optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
gradient = ms.value_and_grad(lambda x: net(x).sum(), None, optimizer.parameters)
for (batch,) in data.create_tuple_iterator(num_epochs=1):
    loss, grads = gradient(batch)
    optimizer(grads)
    loss.asnumpy()
"""
EVERYTHING = {
    "analyse": "off",
    "quiet": True,
    "profile_memory": True,
    "record_shapes": True,
    "data_process": True,
    "parallel_strategy": True,
    "host_sys": ["cpu", "mem"],
    "overhead_budget": 0,
}


def recorded(folder):
    """Run the jobs in folders below a folder, and return the paths of their results.

    Args:
        folder: an existing directory.
    """
    found = []

    def run(name, program, *words, env=None, **options):
        (folder / name).mkdir()
        done = launcher(folder / name)(program, *words, env=env, options=EVERYTHING | options)
        assert done.code == 0, (name, done.err)
        found.append(done.result)

    # Tracing begins after the imports, whose calls would be a hundred times as many.
    once = {"wait": 1, "warmup": 0, "active": 1, "repeat": 2}
    run("traced", TORCH, with_stack=True, schedule=once)
    run("sampled", TORCH, with_stack="sample")
    run("mindspore", MINDSPORE)
    run("part", MINDSPORE, with_stack=True, schedule=once)
    cuda, ascend, counters, machine = (folder / name for name in ("cuda", "ascend", "counters", "machine"))
    for path in (cuda, ascend, counters, machine):
        path.mkdir()
    build(cuda)
    run("gpu", PROGRAMS / "device_job.py", "plain", "3", env=loading(cuda, "CUPTI", "libcupti.so.12"))
    build(ascend, ASCEND)
    run("npu", PROGRAMS / "npu_job.py", "markers", "3", env=loading(ascend, "MSPTI", "libmspti.so"))
    build(counters, COUNTERS)
    raw = {
        **loading(counters, "ACLPROF", "libmsprofiler.so"),
        "FAKE_ACL_DEVICE": "5",
        "PATH": os.pathsep.join([str(FAKES), os.environ["PATH"]]),
        **attached(machine),
    }
    # At the end of the job, msprof exports the data of aclprof, and then the analysis reads them.
    level = {"profiler_level": "Level1", "l2_cache": True, "sys_io": True, "max_disk": "1GB", "analyse": "sync"}
    run("aclprof", PROGRAMS / "counters_job.py", "plain", "3", env=raw, **level)
    return found
