"""Train shortly, reaching as many of our hooks of PyTorch as one process on a processor can."""

import importlib.util
import os
import warnings

import torch
import torch._dynamo
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint.state_dict
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, IterableDataset

torch.set_num_threads(1)


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((4,), index / 8)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.ones(4, 4))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

        self.others = (nn.ReLU(),)  # in a tuple, this module is no submodule of the network

    def forward(self, x):
        x = self.second(checkpoint(lambda x: self.others[0](self.first(x)), x, use_reentrant=False))
        return checkpoint(torch.tanh, x, use_reentrant=True)


def exchanges():
    """Exchange data in a group of one rank, and return the results."""
    x, parts = torch.ones(4), [torch.zeros(4)]
    distributed.all_reduce(x)
    distributed.all_gather(parts, x)
    distributed.reduce(x, 0)
    distributed.broadcast(x, 0)
    distributed.gather(x, [torch.zeros(4)], 0)
    distributed.scatter(x, [torch.ones(4)], 0)
    distributed.barrier()
    distributed.all_reduce(x, async_op=True).wait()
    distributed.monitored_barrier()
    for name in ("all_gather_single", "reduce_scatter_single", "all_to_all_single"):
        if call := getattr(distributed, name, None):
            call(torch.zeros(4), x)
    distributed.new_group([0])
    distributed.init_device_mesh("cpu", (1,))
    summed = functional.wait_tensor(functional.all_reduce(x, "sum", distributed.group.WORLD))
    return x.sum().item(), parts[0].sum().item(), summed.sum().item()


def work(folder):
    """Train, and return the losses and other results, as a job would see them."""
    torch.manual_seed(1)
    warnings.simplefilter("ignore")
    found = []
    path = os.path.join(folder, f"{os.getpid()}.pt")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    net = Net()
    replicas = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    plan = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        for batch in DataLoader(Numbers(), 4):
            optimizer.zero_grad()
            with torch.profiler.record_function("region"):
                loss = replicas(batch).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            found.append(loss.item().hex())
        plan.step()
    found += [batch.sum().item() for batch in DataLoader(Stream(), 2, num_workers=1)]
    found.append(
        [
            value.sum().item().hex()
            for value in torch.autograd.grad(net.second(net.first(torch.ones(1, 4))).sum(), net.parameters())
        ]
    )
    torch.save(net.state_dict(), path)
    found.append(sorted(torch.load(path)))
    if importlib.util.find_spec("safetensors") is not None:
        from safetensors.torch import load_file, save_file

        save_file(net.state_dict(), path + ".safetensors")
        found.append(sorted(load_file(path + ".safetensors")))
    distributed.checkpoint.save({"net": net.state_dict()}, checkpoint_id=path + ".parts")
    fresh = torch.optim.Adam(net.parameters())
    found.append(sorted(distributed.checkpoint.state_dict.get_optimizer_state_dict(net, fresh)))
    distributed.checkpoint.load({"net": net.state_dict()}, checkpoint_id=path + ".parts")
    compiled = torch.compile(lambda x, scale: torch.relu(x) * scale, backend="eager")
    found += [compiled(torch.ones(2), scale).sum().item() for scale in (1, 2, 3.5)]
    scaler = torch.amp.GradScaler("cpu")
    optimizer.zero_grad()
    scaler.scale(net(torch.ones(1, 4)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.load_state_dict(optimizer.state_dict())
    with torch.no_grad():
        net.eval()
        found.append(net(torch.ones(2, 4)).sum().item().hex())
    torch.ones(2).cpu().numpy()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        with torch.profiler.record_function("region"):
            torch.ones(2).sum()
        with torch.profiler.record_function("handed over") as region:
            future = torch.futures.Future()
            region._call_end_callbacks_on_future(future)
        future.set_result(1)
    found.append(sorted(event.key for event in profiler.key_averages() if event.key in ("region", "handed over")))
    found += exchanges()
    distributed.destroy_process_group()
    return found
