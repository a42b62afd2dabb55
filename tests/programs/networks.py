"""Train a network of a usual architecture. usage: networks.py mlp|resnet|transformer graph|pynative STEPS"""

import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops

kind, mode, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
ms.set_seed(7)
ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
ms.set_device("CPU")


class Block(nn.Cell):
    """A basic block of ResNet-18."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.down = None
        if stride != 1 or inputs != outputs:
            self.down = nn.SequentialCell(nn.Conv2d(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def construct(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        if self.down is not None:
            x = self.down(x)
        return self.relu(y + x)


class ResNet18(nn.Cell):
    """ResNet-18 for 32x32 images."""

    def __init__(self):
        super().__init__()
        self.stem = nn.SequentialCell(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU())
        blocks, width = [], 64
        for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [Block(width, outputs, stride), Block(outputs, outputs, 1)]
            width = outputs
        self.blocks = nn.SequentialCell(blocks)
        self.head = nn.Dense(512, 10)

    def construct(self, x):
        return self.head(ops.mean(self.blocks(self.stem(x)), (2, 3)))


class Layer(nn.Cell):
    """A layer of a Transformer's encoder."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1 = nn.LayerNorm((width,))
        self.norm2 = nn.LayerNorm((width,))
        self.inner = nn.Dense(width, 4 * width)
        self.outer = nn.Dense(4 * width, width)
        self.gelu = nn.GELU()

    def construct(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y)[0]
        return x + self.outer(self.gelu(self.inner(self.norm2(x))))


class Transformer(nn.Cell):
    """Two layers and a classifier."""

    def __init__(self, width=64):
        super().__init__()
        self.embedding = nn.Embedding(100, width)
        self.layers = nn.SequentialCell(Layer(width, 4), Layer(width, 4))
        self.head = nn.Dense(width, 10)

    def construct(self, tokens):
        return self.head(ops.mean(self.layers(self.embedding(tokens)), 1))


random = np.random.default_rng(7)
if kind == "resnet":
    net, data = ResNet18(), random.normal(size=(2, 3, 32, 32)).astype(np.float32)
elif kind == "transformer":
    net, data = Transformer(), random.integers(0, 100, (4, 16)).astype(np.int32)
else:
    net = nn.SequentialCell(nn.Dense(16, 32), nn.ReLU(), nn.Dense(32, 10))
    data = random.normal(size=(4, 16)).astype(np.float32)
labels = random.integers(0, 10, len(data)).astype(np.int32)
train = nn.TrainOneStepCell(
    nn.WithLossCell(net, nn.CrossEntropyLoss()), nn.Momentum(net.trainable_params(), 0.001, 0.9)
)
train.set_train()
data, labels = ms.Tensor(data), ms.Tensor(labels)
for _ in range(steps):
    loss = train(data, labels)
print(float(loss.asnumpy()).hex())
