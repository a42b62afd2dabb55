"""Train data-parallel with one late rank. usage: msrun ... late_ranks_mindspore.py KIND RANK [MODE [STEPS]]

KIND is input, computing, sleep, stop (SIGSTOP for a second in one step) or none; MODE is pynative or graph. The rank is
late by 60 ms or by a usual step, whichever is longer. Many ranks on few processors differ by less than that by chance.
"""

import os
import subprocess
import sys
import time

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn
from mindspore.communication import get_rank, init

FEATURES, SIZE = 64, 16
#: seconds by which the rank is late in each step, at least
LATE = 0.06
#: number of steps before the first late one: the first step compiles, the others give the usual length of a step
BEFORE = 5
#: number of rows of the late rank's large matrices, whose products take about as long as a usual step
LARGE = {"graph": 1100, "pynative": 2000}


def stopped(seconds):
    """Start a shell that stops this process by SIGSTOP and continues it after some seconds."""
    own = os.getpid()
    subprocess.Popen(["sh", "-c", f"kill -STOP {own}; sleep {seconds}; kill -CONT {own}"])
    time.sleep(0.02)  # the signal arrives during this sleep


def main(kind, number, mode, steps):
    """Train; with a kind other than "none", rank `number` is late."""
    ms.set_seed(7)
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    ms.set_device("CPU")
    ds.config.set_prefetch_size(1)  # with more, all batches would be ready after the first step, which compiles
    init()
    ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    rank = get_rank()
    late = rank == number
    took = []

    def usual():
        """Return the usual seconds of a step; 0 before they are known."""
        return sorted(took[1:BEFORE])[BEFORE // 2] if len(took) >= BEFORE else 0.0

    def batches():
        for step in range(steps):
            if late and kind == "input" and usual():
                time.sleep(usual() + max(LATE, usual()))  # the pipeline sleeps during the step before
            yield np.full((SIZE, FEATURES), step / steps, np.float32), np.zeros(SIZE, np.int32)

    data = ds.GeneratorDataset(batches, ["x", "y"], shuffle=False)
    net = nn.SequentialCell(nn.Dense(FEATURES, 128), nn.ReLU(), nn.Dense(128, 10))
    # All ranks run the same operators. On the late rank, their matrices are larger.
    large = ms.Tensor(np.full((LARGE[mode],) * 2 if late and kind == "computing" else (2, 2), 1e-3, np.float32))
    loss_fn = nn.CrossEntropyLoss()
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)

    def forward(x, y):
        weight = large
        for _ in range(2):
            weight = ms.ops.matmul(weight, large)
        return loss_fn(net(x), y) + 0.0 * weight[0, 0]

    if mode == "graph":

        class Loss(nn.Cell):
            def __init__(self):
                super().__init__()
                self.net, self.loss, self.large = net, loss_fn, large

            def construct(self, x, y):
                weight = self.large
                for _ in range(2):
                    weight = ms.ops.matmul(weight, self.large)
                return self.loss(self.net(x), y) + 0.0 * weight[0, 0]

        step = nn.TrainOneStepCell(Loss(), optimizer)
        step.set_train()
    else:
        reducer = nn.DistributedGradReducer(optimizer.parameters)
        gradient = ms.value_and_grad(forward, None, optimizer.parameters)

        def step(x, y):
            loss, gradients = gradient(x, y)
            optimizer(reducer(gradients))
            return loss

    for place, (x, y) in enumerate(data.create_tuple_iterator()):
        begun = time.perf_counter()
        if late and kind == "sleep" and usual():
            time.sleep(max(LATE, usual()))
        elif late and kind == "stop" and place == steps // 2:
            stopped(1)
        step(x, y).asnumpy()
        took.append(time.perf_counter() - begun)


if __name__ == "__main__":
    main(
        sys.argv[1],
        int(sys.argv[2]),
        sys.argv[3] if len(sys.argv) > 3 else "pynative",
        int(sys.argv[4]) if len(sys.argv) > 4 else 30,
    )
