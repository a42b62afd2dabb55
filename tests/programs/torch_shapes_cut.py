"""Train ten steps; in the fourth, do something that ends the recording of shapes. usage: torch_shapes_cut.py WHAT

The program prints the events of the script's own profilers, and the losses.
"""

import json
import os
import sys
import threading
from collections import Counter

import torch
from torch import nn
from torch.autograd import profiler as legacy
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset

CPU = [ProfilerActivity.CPU]
data = TensorDataset(torch.arange(32.0).reshape(8, 4))


def counts(events):
    return sorted(Counter((event.name, str(event.input_shapes)) for event in events).items())


def work():
    x = torch.ones(3, 4, requires_grad=True)
    with record_function("region"):
        (x * 2).sum().backward()


def own(**options):
    with profile(activities=CPU, record_shapes=True, **options) as kept:
        work()
    return counts(kept.events())


def in_thread(call):
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found


def scheduled():
    seen = []
    with profile(
        activities=CPU,
        record_shapes=True,
        schedule=schedule(wait=1, warmup=1, active=1, repeat=1),
        on_trace_ready=lambda kept: seen.append(counts(kept.events())),
    ) as kept:
        for _ in range(4):
            work()
            kept.step()
    return seen


def everywhere():
    return own(experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=True))


def older():
    with legacy.profile(use_kineto=False, record_shapes=True) as kept:
        work()
    return counts(kept.function_events)


def itt():
    with legacy.emit_itt():
        work()


def forked():
    pid = os.fork()
    if pid == 0:
        print(len(own()), flush=True)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def loaded():
    return [batch.sum().item() for (batch,) in DataLoader(data, batch_size=4, num_workers=2)]


@torch.jit.script
def handed_on(x):
    other = torch.jit.fork(torch.sin, x)
    return torch.jit.wait(other) + x


WHATS = {
    "profile": own,
    "thread": lambda: in_thread(own),
    "schedule": scheduled,
    "all threads": everywhere,
    "legacy": older,
    "itt": itt,
    "fork": forked,
    "fork in thread": lambda: in_thread(forked),
    "loader": loaded,
    "threads end": lambda: in_thread(work),
    "error": lambda: type(error()).__name__,
    "handed on": lambda: handed_on(torch.ones(2, 3)).sum().item(),
}


def error():
    try:
        torch._C._autograd._disable_profiler()
    except RuntimeError as reason:
        return reason


def main(what):
    torch.manual_seed(3)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    handed_on(torch.ones(1))  # the first call compiles the function
    for step in range(10):
        optimizer.zero_grad()
        loss = model(torch.randn(2 + step, 4)).square().mean()
        if step == 3 or what in ("handed on", "threads end"):
            print(json.dumps(WHATS[what]()))
        loss.backward()
        print(loss.item().hex(), torch.autograd._profiler_enabled())
        optimizer.step()


if __name__ == "__main__":
    main(*sys.argv[1:])
