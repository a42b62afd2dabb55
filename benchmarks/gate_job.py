"""Train a small network for a few seconds, either unchanged or with one change that makes its steps longer.

usage: gate_job.py torch|mindspore none|layer|data|sync|compiled|recompile|copy|collective

A kind is compared with its base, the unchanged job. `none` is the base of all kinds with two exceptions: the base of
`recompile` is `compiled`, and the base of `collective` is `torchrun gate_job.py torch ranks`.
"""

import statistics
import sys
import time

FEATURES, CLASSES = 256, 10
#: Width of the network, width of its hidden layers, samples in a batch, and number of steps. MindSpore has larger
#: sizes. With PyTorch's sizes, launches would determine the time of a MindSpore step, and a wider layer would not
#: change the time.
TORCH, MINDSPORE = (256, 512, 128, 40), (384, 2048, 384, 30)
#: factor by which the slower layer is wider, with PyTorch and with MindSpore: it makes a step 15 % longer
WIDER_TORCH, WIDER_MINDSPORE = 1.6, 2.6
#: time that a change adds to a step, as a fraction of this run's usual step time. A fixed time would be wrong, because
#: the machine's speed varies.
SHARE = 0.15
#: the steps whose median duration is the usual step time; earlier steps warm up
MEASURED = slice(2, 8)


def spin(milliseconds):
    """Keep the processor busy with Python code for some milliseconds; a sleep would leave it to other programs."""
    end = time.perf_counter() + milliseconds / 1e3
    while time.perf_counter() < end:
        pass


class Pace:
    """The usual duration of a step of this run, measured in the steps of `MEASURED`."""

    def __init__(self):
        self.ends = []
        self.usual = 0.0

    def stepped(self):
        """Note that a step has ended now."""
        self.ends.append(time.perf_counter())
        if len(self.ends) == MEASURED.stop + 1:
            self.usual = statistics.median(
                b - a for a, b in zip(self.ends[MEASURED.start :], self.ends[MEASURED.start + 1 :], strict=False)
            )

    def delay(self):
        """Return the time in seconds that the planted change adds to a step."""
        return SHARE * self.usual


def train_torch(kind):
    """Train with PyTorch."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    width, usual, batch, steps = TORCH
    pace = Pace()

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return steps

        def __getitem__(self, index):
            spin(1 + (pace.delay() * 1e3 if kind == "data" else 0))
            return x, y

    class Feed(nn.Module):
        def __init__(self, hidden):
            super().__init__()
            self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

        def forward(self, value):
            return value + self.down(torch.relu(self.up(value)))

    torch.manual_seed(0)
    torch.set_num_threads(1)
    hidden = [usual, int(usual * WIDER_TORCH) if kind == "layer" else usual, usual]
    model = nn.Sequential(nn.Linear(FEATURES, width), *map(Feed, hidden), nn.Linear(width, CLASSES))
    x, y = torch.randn(batch, FEATURES), torch.randint(CLASSES, (batch,))
    compiled = None
    if kind in ("compiled", "recompile"):
        torch._dynamo.config.cache_size_limit = steps + 8
        compiled = torch.compile(lambda value: value * 1.5 + 1.0, dynamic=False, backend="eager")
    if kind in ("ranks", "collective"):
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.05 if kind == "collective" else 25)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step, (inputs, labels) in enumerate(DataLoader(Samples(), batch_size=None)):
        if kind == "copy":
            inputs = inputs.clone()
        if compiled is not None:
            compiled(inputs[: batch - (step if kind == "recompile" else 0)])
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        if kind == "sync":
            end = time.perf_counter() + pace.delay()
            while time.perf_counter() < end:
                loss.item()
        pace.stepped()
    if kind in ("ranks", "collective"):
        torch.distributed.destroy_process_group()


def train_mindspore(kind):
    """Train with MindSpore, in pynative mode."""
    import mindspore as ms
    import numpy as np
    from mindspore import dataset, nn, ops

    width, usual, batch, steps = MINDSPORE
    pace = Pace()
    dataset.config.set_prefetch_size(1)  # with a longer queue, MindSpore would make most batches before the first step
    ms.set_seed(7)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.set_device("CPU")
    x = np.random.randn(batch, FEATURES).astype(np.float32)
    y = np.random.randint(0, CLASSES, batch).astype(np.int32)

    def samples():
        for _ in range(steps):
            spin(1)
            if kind == "data":  # batches are made ahead: only one that is slower than a step delays it
                time.sleep(pace.usual + pace.delay())
            yield x, y

    class Feed(nn.Cell):
        def __init__(self, hidden):
            super().__init__()
            self.up, self.down = nn.Dense(width, hidden), nn.Dense(hidden, width)

        def construct(self, value):
            return value + self.down(ops.relu(self.up(value)))

    hidden = [usual, int(usual * WIDER_MINDSPORE) if kind == "layer" else usual, usual]
    model = nn.SequentialCell(nn.Dense(FEATURES, width), *map(Feed, hidden), nn.Dense(width, CLASSES))
    loss_of = nn.CrossEntropyLoss()
    optimizer = nn.SGD(model.trainable_params(), 0.01)
    gradient = ms.value_and_grad(lambda a, b: loss_of(model(a), b), None, optimizer.parameters)

    @ms.jit
    def scaled(value):
        return ops.relu(value * 2.0 + 1.0)

    data = dataset.GeneratorDataset(samples, ["x", "y"], shuffle=False, num_parallel_workers=1)
    for step, (inputs, labels) in enumerate(data.create_tuple_iterator()):
        if kind == "copy":
            inputs = inputs.copy()
        if kind in ("compiled", "recompile"):
            scaled(inputs[: batch - (step if kind == "recompile" else 0)])
        loss, gradients = gradient(inputs, labels)
        optimizer(gradients)
        if kind == "sync":
            end = time.perf_counter() + pace.delay()
            while time.perf_counter() < end:
                float((loss * 1.0).asnumpy())
        pace.stepped()


if __name__ == "__main__":
    framework, kind = sys.argv[1:]
    {"torch": train_torch, "mindspore": train_mindspore}[framework](kind)
