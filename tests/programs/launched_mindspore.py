"""Train on two ranks; rank 1 ends after STEPS steps in a given WAY. usage: msrun ... launched_mindspore.py WAY

Before that, the ranks wait for each other as in `launched_torch.py`.
"""

import sys

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.communication import get_rank, init
from way_to_end import STEPS, end, ready


def main(way):
    """Train, and end rank 1 in the given way."""
    ms.set_seed(7)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.set_device("CPU")
    init()
    ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    rank = get_rank()
    net = nn.WithLossCell(nn.Dense(8, 1, weight_init="ones"), nn.MSELoss())
    train = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), learning_rate=0.01))
    train.set_train()
    for step in range(2 * STEPS):
        if step == STEPS:
            ready(rank)
            if rank == 1:
                end(way)
        loss = train(ms.Tensor(np.full((4, 8), rank + 1, np.float32)), ms.Tensor(np.zeros((4, 1), np.float32)))
        print(f"rank {rank} start 0 step {step}: {float(loss.asnumpy()).hex()}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
