"""Train a network with residual connections in pynative mode, by a training cell, and evaluate it after that."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

STEPS = 12


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(8, 8)

    def construct(self, x):
        return x + ops.relu(self.fc(x))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.second = Block()
        self.side = nn.Dense(8, 8)
        self.head = nn.Dense(8, 2)

    def construct(self, x):
        x = self.second(self.first(x))
        return self.head(x + self.side(x))


ms.set_context(mode=ms.PYNATIVE_MODE)
ms.set_seed(1)
net = Net()
train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.01))
train.set_train()
data, labels = ms.Tensor(np.ones((4, 8), np.float32)), ms.Tensor(np.ones((4, 2), np.float32))
for _ in range(STEPS):
    loss = train(data, labels)
net.set_train(False)
for _ in range(STEPS):
    result = net(data)
print(loss.asnumpy().tobytes().hex(), result.asnumpy().tobytes().hex())
