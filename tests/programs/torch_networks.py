"""Train two networks of one class together; print the parameters of each module and the operations of a step.

usage: torch_networks.py FILE

FILE receives {"parameters": {path: [elements, bytes]}, "flops": {network: [forward, backward]}}.
"""

import copy
import json
import sys

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

torch.set_num_threads(1)
torch.manual_seed(7)


class Block(nn.Module):
    """A convolution, attention, and a layer that both blocks share."""

    def __init__(self, width, shared):
        super().__init__()
        self.convolution = nn.Conv1d(width, width, 3, padding=1)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = shared

    def forward(self, x):
        x = self.convolution(x.transpose(1, 2)).transpose(1, 2)
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(8, width)
        shared = nn.Linear(width, width, bias=False)
        self.blocks = nn.ModuleList(Block(width, shared) for _ in range(2))
        self.head = nn.Linear(width, 1).half()

    def forward(self, x):
        x = self.up(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1).half()).float()


def step(first, second, x):
    (first(x) + second(x)).sum().backward()


def described(name, network):
    return {
        f"{name}.{path}".rstrip("."): [
            sum(each.numel() for each in module.parameters()),
            sum(each.numel() * each.element_size() for each in module.parameters()),
        ]
        for path, module in network.named_modules()
    }


if __name__ == "__main__":
    networks = [Net(16), Net(32)]
    optimizer = torch.optim.SGD([each for network in networks for each in network.parameters()], lr=0.01)
    x = torch.randn(4, 6, 8)
    for _ in range(6):
        optimizer.zero_grad()
        step(*networks, x)
        optimizer.step()
    truth = {"parameters": described("Net", networks[0]) | described("Net#2", networks[1]), "flops": {}}
    for name, network in zip(("Net", "Net#2"), copy.deepcopy(networks), strict=True):
        # PyTorch's counter does not know the attention kernel of a CPU, so the plain implementation runs
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            out = network(x).sum()
        forward = counter.get_total_flops()
        with FlopCounterMode(display=False) as counter:
            out.backward()
        truth["flops"][name] = [forward, counter.get_total_flops()]
    with open(sys.argv[1], "w", encoding="utf-8") as stream:
        json.dump(truth, stream)
