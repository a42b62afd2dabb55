"""Use all parts of PyTorch that analyse a script's code or objects; print the results. usage: torch_captures.py DIR"""

import copy
import inspect
import io
import os
import pickle
import sys
import warnings

import torch
import torch._dynamo as dynamo
from torch import fx, nn
from torch._dynamo.utils import counters

os.chdir(sys.argv[1])
torch.manual_seed(7)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.inner(x)) + x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Breaking(Net):
    def forward(self, x):
        x = self.blocks[0](x)
        dynamo.graph_break()
        return self.head(self.blocks[1](x))


class Hooked(Net):
    def __init__(self):
        super().__init__()
        self.head.register_forward_hook(lambda module, args, out: out * 2)


def checksum(net):
    return sum(value.detach().double().abs().sum().item() for value in net.parameters()).hex()


def statistics():
    stats = dict(counters["stats"])
    breaks = sum(counters["graph_break"].values())
    dynamo.reset()
    counters.clear()
    return stats.get("unique_graphs"), stats.get("calls_captured"), breaks


def train(make, compile_step=False, **options):
    """Train three compiled steps, the last with another size; print losses, parameters and Dynamo's counters."""
    torch.manual_seed(7)
    net = make()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    compiled = torch.compile(net, **options)
    step = torch.compile(optimizer.step, backend="eager") if compile_step else optimizer.step
    losses = []
    for size in (4, 4, 6):
        optimizer.zero_grad()
        loss = compiled(torch.ones(size, 8)).square().mean()
        loss.backward()
        step()
        losses.append(loss.item().hex())
    print(make.__name__, options, compile_step, losses, checksum(net), statistics())


def function(**options):
    """Compile a function that computes the loss, train three steps with it, and print Dynamo's counters."""
    torch.manual_seed(7)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @torch.compile(**options)
    def forward(x, scale=1.0):
        return (net(x) * scale).square().mean()

    for scale in (1.0, 2.0, 2.0):
        optimizer.zero_grad()
        loss = forward(torch.ones(4, 8), scale)
        loss.backward()
        optimizer.step()
    print("function", options, loss.item().hex(), checksum(net), statistics())


def compilations():
    train(Net, backend="eager")
    train(Net, backend="aot_eager", fullgraph=True)
    train(Net, compile_step=True, backend="eager", fullgraph=True)
    train(Breaking, backend="eager")
    train(Hooked, backend="eager", fullgraph=True)
    function(backend="eager", fullgraph=True)
    print(dynamo.explain(Breaking())(torch.ones(2, 8)).graph_break_count)
    dynamo.reset()


def captures():
    net, x = Net(), torch.ones(4, 8)
    expected = net(x)
    exported = torch.export.export(net, (x,))
    print([str(node.target) for node in exported.graph.nodes], torch.equal(exported.module()(x), expected))
    strict = torch.export.export(net, (x,), strict=True)
    print([str(node.target) for node in strict.graph.nodes], torch.equal(strict.module()(x), expected))
    symbolic = fx.symbolic_trace(net)
    print(symbolic.code, torch.equal(symbolic(x), expected))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scripted, traced = torch.jit.script(net), torch.jit.trace(net, x)
    print(scripted.code, traced.code, torch.equal(scripted(x), expected), torch.equal(traced(x), expected))
    print(sorted({(warning.category.__name__, os.path.basename(warning.filename)) for warning in caught}))
    stream = io.BytesIO()
    torch.jit.save(scripted, stream)
    stream.seek(0)
    print(torch.equal(torch.jit.load(stream)(x), expected))


def objects():
    net, x = Net(), torch.ones(4, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)
    net(x).sum().backward()
    optimizer.step()
    scheduler.step()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        print(torch.equal(other(x), net(x)), sorted(vars(other)))
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        print(type(other), sorted(vars(other)), other.state_dict()["param_groups"][0]["lr"])
    print(sorted(scheduler.state_dict()))
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, "state.pt")
    torch.save(net, "net.pt", _use_new_zipfile_serialization=False)
    net.load_state_dict(torch.load("state.pt")["net"])
    print(torch.equal(torch.load("net.pt", weights_only=False)(x), net(x)), sorted(os.listdir()))
    for function in (nn.Module.__call__, torch.optim.Optimizer.zero_grad, torch.distributed.all_reduce, torch.load):
        print(function.__name__, function.__module__, inspect.signature(function), inspect.isfunction(function))
        print(inspect.getsource(function)[:60], pickle.loads(pickle.dumps(function)) is function)


def warned():
    """Make PyTorch warn, and print the file and the line at which each warning points: those of the script."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.optim.lr_scheduler.StepLR(optimizer, 1).step()
        torch.ones(1, requires_grad=True).square().backward(create_graph=True)
        nn.Softmax()(torch.ones(2))
    for warning in caught:
        print(warning.category.__name__, os.path.basename(warning.filename), warning.lineno)


if __name__ == "__main__":
    for part in (compilations, captures, objects, warned):
        part()
