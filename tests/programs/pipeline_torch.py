"""Train a pipeline of two stages with two data-parallel ranks each.

usage: torchrun ... pipeline_torch.py KIND STAGE [STEPS]

KIND is blocking (send, recv), queued (batch_isend_irecv) or world (no group contains the ranks of both stages). STAGE
computes longer than the other stage.
"""

import sys
import time

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh

FEATURES, SIZE, PARTS = 64, 16, 3
#: seconds by which the stage computes longer for each part of a batch
LONGER = 0.03


def computed(seconds, out):
    """Compute for some seconds; return `out` plus a zero that depends on the result."""
    begun = time.perf_counter()
    large = torch.full((256, 256), 0.01)
    while time.perf_counter() - begun < seconds:
        large = torch.tanh(large @ large)
    return out + 0.0 * large[0, 0]


class Neighbours:
    """Exchange tensors with this rank's neighbour in the other stage."""

    def __init__(self, kind, mesh):
        self.kind = kind
        self.group = None if kind == "world" else mesh.get_group("pp")
        self.peer = (distributed.get_rank() + 2) % 4

    def send(self, tensor):
        if self.kind == "queued":
            self._batched(distributed.isend, tensor)
        else:
            distributed.send(tensor, self.peer, group=self.group)

    def receive(self):
        tensor = torch.empty(SIZE, FEATURES)
        if self.kind == "queued":
            self._batched(distributed.irecv, tensor)
        else:
            distributed.recv(tensor, self.peer, group=self.group)
        return tensor

    def _batched(self, call, tensor):
        for work in distributed.batch_isend_irecv([distributed.P2POp(call, tensor, self.peer, group=self.group)]):
            work.wait()


def main(kind, slow, steps):
    """Train; stage `slow` computes longer."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    stage = mesh.get_local_rank("pp")
    model = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    neighbours = Neighbours(kind, mesh)
    seconds = LONGER if stage == slow else 0.0
    for _ in range(steps):
        optimizer.zero_grad()
        givens, outs = [], []
        for _ in range(PARTS):
            givens.append(torch.full((SIZE, FEATURES), 0.1) if stage == 0 else neighbours.receive().requires_grad_())
            outs.append(computed(seconds, model(givens[-1])))
            if stage == 0:
                neighbours.send(outs[-1].detach())
        for given, out in zip(givens, outs, strict=True):
            if stage == 0:
                out.backward(neighbours.receive())
            else:
                out.square().mean().backward()
                neighbours.send(given.grad)
        for parameter in model.parameters():
            distributed.all_reduce(parameter.grad, group=mesh.get_group("dp"))
        optimizer.step()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 20)
