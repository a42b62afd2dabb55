"""Train a small convolutional network on generated images with MindSpore on CPU; knows nothing of any profiler.

Usage: train_convnet.py [graph|pynative] [steps]
"""

import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn

ms.set_seed(1)


class ConvNet(nn.Cell):
    """Two convolutions and a classifier for 32x32 images in ten classes."""

    def __init__(self):
        super().__init__()
        self.features = nn.SequentialCell(
            nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU()
        )
        self.flatten = nn.Flatten()
        self.classifier = nn.Dense(32 * 8 * 8, 10)

    def construct(self, images):
        return self.classifier(self.flatten(self.features(images)))


class PrintLoss(ms.Callback):
    """Print the loss of every tenth step."""

    def on_train_step_end(self, run_context):
        step = run_context.original_args().cur_step_num
        if step % 10 == 0:
            print(f"step {step}: loss {float(run_context.original_args().net_outputs.asnumpy()):.4f}")


def images(batches, size=32):
    """Yield images whose class is the brightest of ten stripes."""
    random = np.random.default_rng(1)
    for _ in range(batches * size):
        label = random.integers(10)
        image = random.normal(size=(3, 32, 32)).astype(np.float32)
        image[:, label * 3 : label * 3 + 3] += 0.4
        yield image, np.int32(label)


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "pynative"
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    ms.set_device("CPU")
    network = ConvNet()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9)
    data = ds.GeneratorDataset(lambda: images(steps), ["image", "label"], shuffle=False).batch(32)
    ms.Model(network, loss, optimizer).train(1, data, callbacks=[PrintLoss()])


if __name__ == "__main__":
    main()
