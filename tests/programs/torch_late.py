"""Start the profiler after everything is imported, made and compiled. usage: torch_late.py PATH"""

import json
import pickle
import sys

import ms_profiler
import torch
import torch.distributed._functional_collectives as functional
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(7)
torch.set_num_threads(1)
torch.version.cuda = "13.0"  # as in a build for an accelerator, where reads wait for the device
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
compiled = torch.compile(net, backend="eager", fullgraph=True)
losses = []


def step():
    optimizer.zero_grad()
    loss = compiled(torch.ones(2, 4)).square().mean()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(float(loss.detach()))


step()
profiler = ms_profiler.Profiler(output_path=sys.argv[1])
step()
second = torch.compile(nn.Sequential(net), backend="eager", fullgraph=True)
losses.append(second(torch.ones(2, 4)).sum().item())
for tensor in (torch.ones(3), torch.ones(3, device="meta")):
    tensor.to("meta").to(torch.float64)
print(bool(torch.ones(1)), int(torch.ones(1)), [0, 1][torch.ones(1, dtype=torch.int64)], torch.ones(2).tolist())
methods = [getattr(torch.Tensor, name) for name in ("item", "tolist", "__bool__", "to", "cpu", "cuda")]
print([pickle.loads(pickle.dumps(method)) == method for method in methods], hasattr(torch.Tensor.to, "__module__"))
print(torch.distributed.all_reduce in functional.traceable_collective_remaps)
profiler.stop()
print(json.dumps([*losses, dict(counters["stats"]), sum(counters["graph_break"].values())]))
(plugin,) = (each for each in ms_profiler.job.collection.current().hooks.plugins if each.framework == "torch")
before = {name: vars(torch.nn.Module).get(name) for name in ("__call__", "_wrapped_call_impl")}
plugin.undo()
print({name: before[name] is not vars(torch.nn.Module).get(name) for name in before}, "item" in vars(torch.Tensor))
print(len(sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks))
step()
