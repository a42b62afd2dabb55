"""Train for some steps, either unchanged or with one planted change that makes the steps longer.

usage: compared.py torch|mindspore none|layer|data|sync|recompile|copy|renamed|workers|every [STEPS]
"""

import sys
import time

FRAMEWORK, PLANTED = sys.argv[1:3]
STEPS = int(sys.argv[3]) if len(sys.argv) > 3 else 40
WIDTH, HIDDEN, BATCH = 128, 512, 64
#: number of the slower block, and how often this block repeats its computation
SLOW, AGAIN = 2, 12
#: seconds by which the dataset takes longer for each batch
LONGER = 0.02
#: seconds of a pause in every fourth step
PAUSE, EVERY = 0.2, 4
#: number of values that each step reads with PyTorch
READ = 2_000


def with_torch():
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)

    class Block(nn.Module):
        def __init__(self, number):
            super().__init__()
            self.number, self.up, self.down = number, nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

        def forward(self, x):
            hidden = torch.relu(self.up(x))
            if PLANTED == "layer" and self.number == SLOW:
                for _ in range(AGAIN):
                    hidden = hidden + 0 * (hidden.detach() @ hidden.detach().T @ hidden.detach())
            return x + self.down(hidden)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            blocks = nn.ModuleList([Block(number) for number in range(6)])
            setattr(self, "layers" if PLANTED == "renamed" else "blocks", blocks)
            self.head = nn.Linear(WIDTH, 10)

        def forward(self, x):
            for block in self.layers if PLANTED == "renamed" else self.blocks:
                x = block(x)
            return self.head(x)

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return STEPS * BATCH

        def __getitem__(self, index):
            if PLANTED == "data" and index % BATCH == 0:
                time.sleep(LONGER)
            return torch.full((WIDTH,), index / BATCH), index % 10

    net = Net()
    called = net
    if PLANTED in ("recompile", "compiled"):
        torch._dynamo.config.recompile_limit = STEPS + 1
        called = torch.compile(net, backend="eager", dynamic=False)
    optimizer, loss_of = torch.optim.SGD(net.parameters(), lr=0.01), nn.CrossEntropyLoss()
    workers = 1 if PLANTED in ("workers", "every") else 0
    loader = torch.utils.data.DataLoader(Samples(), batch_size=BATCH, num_workers=workers)
    for number, (x, y) in enumerate(loader):
        if PLANTED == "every" and number % EVERY == 0:
            time.sleep(PAUSE)
        if PLANTED == "recompile":
            x, y = x[number % STEPS :], y[number % STEPS :]
        if PLANTED == "copy":
            large = torch.ones(4_000_000)
            large.clone()
        out = called(x)
        loss = loss_of(out, y)
        if PLANTED == "sync":
            for value in out.detach().repeat(4, 1).flatten()[:READ]:
                value.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def with_mindspore():
    import mindspore as ms
    import numpy as np
    from mindspore import nn, ops

    pynative = PLANTED in ("sync", "pynative")
    ms.set_context(mode=ms.PYNATIVE_MODE if pynative else ms.GRAPH_MODE, device_target="CPU")
    ms.set_seed(0)

    class Block(nn.Cell):
        def __init__(self, number):
            super().__init__()
            self.number, self.up, self.down, self.relu = (
                number,
                nn.Dense(WIDTH, HIDDEN),
                nn.Dense(HIDDEN, WIDTH),
                nn.ReLU(),
            )

        def construct(self, x):
            hidden = self.relu(self.up(x))
            if PLANTED == "layer" and self.number == SLOW:
                for _ in range(AGAIN):
                    hidden = hidden + 0 * ops.matmul(ops.matmul(hidden, hidden.T), hidden)
            return x + self.down(hidden)

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            blocks = nn.CellList([Block(number) for number in range(6)])
            if PLANTED == "renamed":
                self.layers = blocks
            else:
                self.blocks = blocks
            self.head = nn.Dense(WIDTH, 10)

        def construct(self, x):
            for block in self.layers if PLANTED == "renamed" else self.blocks:
                x = block(x)
            return self.head(x)

    def samples():
        for number in range(STEPS):
            if PLANTED == "data":
                time.sleep(LONGER)
            size = BATCH - number % (BATCH // 2) if PLANTED == "recompile" else BATCH
            yield np.full((size, WIDTH), number / STEPS, np.float32), np.arange(size, dtype=np.int32) % 10

    # by default, all batches may be made while the first step compiles: then no step waits for a slow generator
    ms.dataset.config.set_prefetch_size(1)
    dataset = ms.dataset.GeneratorDataset(samples, ["x", "y"], shuffle=False)
    net = Net()
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), nn.SGD(net.trainable_params(), 0.01))
    step.set_train()
    for x, y in dataset.create_tuple_iterator():
        loss = step(x, y)
        if PLANTED == "sync":
            for _ in range(20):
                (loss + 1).asnumpy()
        if PLANTED == "copy":
            ops.ones((4_000_000,), ms.float32).copy()


{"torch": with_torch, "mindspore": with_mindspore}[FRAMEWORK]()
