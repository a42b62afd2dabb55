"""Run workloads of PyTorch twice, in regions "ours WORK" and "theirs WORK", the second time under torch.profiler.

usage: torch_workloads.py FOLDER WORK ...

FOLDER/WORK.json receives the trace of torch.profiler. FOLDER/WORK.averages receives its `key_averages`: name, calls,
self and total microseconds, and whether it is a region.
"""

import json
import os
import sys
import threading

import torch
from torch import nn


def mlp():
    """Return a training step whose time consists of launches."""
    model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(20)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 32)

    def run():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return run


def transformer():
    """Return a training step of two layers of a transformer, with an optimizer that keeps a state."""
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(2, 8, 32)

    def run():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return run


def lstm():
    """Return a training step of a recurrent network with clipped gradients."""
    model, head = nn.LSTM(16, 32, 2, batch_first=True), nn.Linear(32, 4)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
    x = torch.randn(4, 6, 16)

    def run():
        optimizer.zero_grad()
        head(model(x)[0][:, -1]).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return run


def nested():
    """Return a function with operators that call operators of their own name, and with regions inside of operators."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            with torch.profiler.record_function("own forward"):
                return x * x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            with torch.profiler.record_function("own backward"):
                return 3 * x * x * grad

    x = torch.randn(8, 8, requires_grad=True)

    def run():
        y = Cube.apply(x)
        means = [y.mean() for _ in range(20)]
        scaled = x.detach().clone()
        for _ in range(100):
            scaled.div_(2.0)
        (means[0] + y.to(torch.float64).mean()).backward()

    return run


def convolution():
    """Return a training step of a small convolutional network with a region, followed by an evaluation."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(4, 3, 16, 16), torch.randint(10, (4,))

    def run():
        optimizer.zero_grad()
        with torch.profiler.record_function("forward and loss"):
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(x)
        model.train()

    return run


def compiled():
    """Return a training step of a compiled network, whose visible operators are the same for both profilers."""
    model = torch.compile(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), backend="aot_eager")
    x = torch.randn(8, 16)

    def run():
        model(x).sum().backward()

    return run


def loader():
    """Return a loop over a data loader with two workers."""
    data = torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randn(32, 1))
    model = nn.Linear(8, 1)

    def run():
        for x, y in torch.utils.data.DataLoader(data, batch_size=8, num_workers=2):
            nn.functional.mse_loss(model(x), y).backward()

    return run


def threads():
    """Return a function that starts two threads, each with a backward pass."""
    models = [nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())]

    def work(model):
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()

    def run():
        running = [threading.Thread(target=work, args=[model]) for model in models]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        torch.ones(3).exp()

    return run


def scripted():
    """Return a function that calls a module compiled by TorchScript."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            for _ in range(3):
                x = torch.relu(self.linear(x))
            return x

    block = torch.jit.script(Block())

    def run():
        block(torch.ones(2, 4))

    return run


def custom():
    """Return a function with a custom autograd function, whose backward pass marks a region and runs autograd."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            with torch.profiler.record_function("own backward"), torch.enable_grad():
                inner = x.detach().requires_grad_()
                (slope,) = torch.autograd.grad(inner**3, inner, grad)
            return slope

    x = torch.ones(3, requires_grad=True)

    def run():
        try:
            with torch.profiler.record_function("fails"):
                x.view(7)
        except RuntimeError:
            pass
        Cube.apply(x).sum().backward()

    return run


def collective():
    """Return a function that sums over the one rank there is; the sum ends on a thread of the backend."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    x = torch.ones(4)

    def run():
        with torch.profiler.record_function("exchange"):
            work = torch.distributed.all_reduce(x, async_op=True)
            work.wait()
            x.cos()
        x.sin()

    return run


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    folder, *names = sys.argv[1:]
    for name in names:
        run = globals()[name]()
        for _ in range(4):
            run()
        with torch.profiler.record_function(f"ours {name}"):
            run()
        # older versions of PyTorch lack this option
        everywhere = torch._C._profiler._ExperimentalConfig(profile_all_threads=True) if name == "threads" else None
        kept = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], experimental_config=everywhere)
        with kept, torch.profiler.record_function(f"theirs {name}"):
            run()
        kept.export_chrome_trace(os.path.join(folder, f"{name}.json"))
        averages = [  # PyTorch 2.4 does not tell regions from operators
            (
                item.key,
                item.count,
                item.self_cpu_time_total,
                item.cpu_time_total,
                getattr(item, "is_user_annotation", 0),
            )
            for item in kept.key_averages()
        ]
        with open(os.path.join(folder, f"{name}.averages"), "w", encoding="utf-8") as file:
            json.dump(averages, file)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
