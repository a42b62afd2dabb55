"""Print what a job sees of the frames around its code: tracebacks, stacks, lines of warnings, depth of recursion."""

import inspect
import os
import sys
import traceback
import warnings

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops, train

ms.set_device("CPU")
ms.set_context(mode=ms.PYNATIVE_MODE)


def stack():
    return [(os.path.basename(frame.filename), frame.function) for frame in inspect.stack()[1:]]


class Tells(nn.Cell):
    def construct(self, x):
        print(stack())
        warnings.warn("from construct", stacklevel=4)
        return x


class Fails(nn.Cell):
    def construct(self, x):
        raise ValueError(stack())


class Callback(train.Callback):
    def on_train_step_end(self, run_context):
        raise KeyError(str(stack()))


class Rows:
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return np.ones(2, np.float32), np.ones(2, np.float32)


def fails(call):
    try:
        call()
    except Exception:  # noqa: BLE001 - whatever it is, it is shown
        print(traceback.format_exc())
    else:
        print("no exception")


def deepest():
    """Return, to a multiple of ten, how many nested cells can be called before the recursion limit."""
    depth, net = 0, nn.Identity()
    x = ms.Tensor(np.ones(1, np.float32))
    try:
        while True:
            for _ in range(10):
                net = nn.SequentialCell(net)
            net(x)
            depth += 10
    except RecursionError:
        return depth


warnings.simplefilter("always")
warnings.showwarning = lambda message, category, filename, line, *_: print(message, os.path.basename(filename), line)
x = ms.Tensor(np.ones((2, 2), np.float32))
nn.SequentialCell(Tells())(x)
fails(lambda: nn.SequentialCell(nn.Identity(), Fails())(x))
fails(lambda: ms.value_and_grad(Fails(), 0)(x))
print(ms.grad(Tells())(x))
net = nn.Dense(2, 2)
model = train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
dataset = ds.GeneratorDataset(Rows(), ["x", "y"], shuffle=False).batch(2)
fails(lambda: model.train(1, dataset, callbacks=[Callback()]))
fails(lambda: ops.matmul(ms.Tensor(np.ones((2, 3), np.float32)), x))
fails(lambda: ms.load_checkpoint("missing.ckpt"))
fails(lambda: nn.SGD([], 0.1))
fails(lambda: ms.Tensor(np.ones(2)).item(5))


@ms.jit
def compiled(x):
    return x + undefined  # noqa: F821


fails(lambda: compiled(x))
sys.setrecursionlimit(400)  # MindSpore sets 10000; nesting as many cells takes seconds
print(deepest())
