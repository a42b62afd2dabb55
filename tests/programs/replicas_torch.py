"""Train data-parallel, and write the exchanges of each step. usage: torchrun ... replicas_torch.py FOLDER KIND

KIND is plain, buffers, unused, accumulate, subgroup, beside (the script calls all-reduces, too), hook, or two (two
models). The exchanges come from PyTorch's flight recorder. The file of each rank has the operation, group and bytes of
each exchange.
"""

import contextlib
import json
import sys
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

STEPS, WIDTH = 12, 128
BYTES = {"Float": 4, "Long": 8, "Int": 4, "Half": 2, "Byte": 1, "Bool": 1}


class Net(nn.Module):
    """A network; with `unused`, one of its layers runs only in some steps."""

    def __init__(self, buffers, unused):
        super().__init__()
        self.first = nn.Linear(WIDTH, 4 * WIDTH)
        self.norm = nn.BatchNorm1d(4 * WIDTH) if buffers else nn.Identity()
        self.second = nn.Linear(4 * WIDTH, WIDTH)
        self.spare = nn.Linear(WIDTH, WIDTH) if unused else None
        self.last = nn.Linear(WIDTH, 10)

    def forward(self, x, spare):
        """Return the output of the last layer; `spare` says whether the spare layer runs."""
        x = self.second(torch.relu(self.norm(self.first(x))))
        return self.last(self.spare(x) if self.spare is not None and spare else x)


def exchanged():
    """Return (operation, group, bytes) of each exchange so far, as PyTorch's flight recorder has it."""
    recorded = json.loads(torch._C._distributed_c10d._dump_fr_trace_json(True, False))
    found = []
    for entry in recorded.get("entries", []):
        sizes = [torch.Size(shape).numel() for shape in entry["input_sizes"]]
        total = sum(size * BYTES[kind] for size, kind in zip(sizes, entry["input_dtypes"], strict=True))
        found.append((entry["profiling_name"].removeprefix("gloo:"), entry["process_group"][0], total))
    return found


def main(folder, kind):
    """Train, and write the exchanges of each step and the bytes of the gradients to a file in `folder`."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    group = distributed.new_group([0, 1]) if kind == "subgroup" else None
    unused = kind == "unused"

    def replicated():
        net = Net(kind == "buffers", unused)
        made = DistributedDataParallel(net, bucket_cap_mb=0.2, process_group=group, find_unused_parameters=unused)
        if kind == "hook":
            made.register_comm_hook(None, default_hooks.fp16_compress_hook)
        return made

    models = [replicated() for _ in range(2 if kind == "two" else 1)]
    optimizer = torch.optim.SGD([value for model in models for value in model.parameters()], lr=0.01)
    x = torch.randn(16, WIDTH)
    by_step = []
    begin = len(exchanged())
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(3 if kind == "accumulate" else 1):
            quiet = kind == "accumulate" and part < 2
            for model in models:
                with model.no_sync() if quiet else contextlib.nullcontext():
                    loss = model(x, step % 2 == 0).square().mean()
                    if kind == "beside":
                        distributed.all_reduce(loss.detach().clone())
                    loss.backward()
        optimizer.step()
        by_step.append(exchanged()[begin:])
        begin += len(by_step[-1])
    gradients = sum(value.nbytes for model in models for value in model.parameters())
    (Path(folder) / f"truth_{rank}.json").write_text(json.dumps({"steps": by_step, "gradients": gradients}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
