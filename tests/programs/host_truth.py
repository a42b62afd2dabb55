"""Train for a short time, and print psutil's and the kernel's figures of this process at two moments."""

import json
import os
import resource
import sys
import time

import psutil
import torch

own = psutil.Process()
torch.set_num_threads(1)
model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), 0.001)
data = torch.randn(256, 256)


def look() -> dict[str, float]:
    """Return the current time in ns and the figures of this process."""
    times, files = own.cpu_times(), own.io_counters()
    # psutil counts the context switches of the first thread only, the kernel those of all threads
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "time_ns": time.time_ns(),
        "cpu": times.user + times.system,
        "switches": usage.ru_nvcsw + usage.ru_nivcsw,
        "written": files.write_chars,
        "resident": own.memory_info().rss,
    }


def train(seconds: float) -> None:
    """Train step by step for some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        model(data).sum().backward()
        optimizer.step()


train(0.5)
first = look()
# ms-profiler spreads a count evenly between two samples, so the steady work surrounds each moment; on a busy machine,
# some samples are 0.3 s apart
train(1)
held = torch.ones(96 << 18)  # 96 MiB
with open(sys.argv[1], "wb") as stream:
    stream.write(bytes(24 << 20))
    stream.flush()
    os.fsync(stream.fileno())
train(0.5)
middle = look()
time.sleep(0.5)
train(0.3)
print(json.dumps([first, middle]))
