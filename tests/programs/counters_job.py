"""Train with MindSpore on the processor beside a made-up NPU that is in use.

usage: counters_job.py MODE [STEPS]

When ms-profiler asks MindSpore for the device target, the answer is Ascend. In each step the NPU runs this work: a
kernel of 100 us on stream 2, which begins 200 us after its launch; a kernel of 50 us, which begins 350 us after its
launch; and an exchange of 80 us on stream 3, which begins with the second kernel.

plain        train
unused       train without a thread that has the NPU in use
killed       after the last step the process ends by SIGKILL
fork         after the last step a child records and ends
interrupted  after the last step Ctrl-C is pressed; MindSpore has a handler of its own for it
"""

import ctypes
import multiprocessing
import os
import signal
import sys

MODE = sys.argv[1]
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
US = 1000

if MODE != "unused":
    ctypes.CDLL("libascendcl.so")
device = ctypes.CDLL("libmsprofiler.so") if MODE != "unused" else None

import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore import nn  # noqa: E402

target = ms.context.get_context


def get_context(key):
    asks = sys._getframe(1).f_globals["__name__"]
    return "Ascend" if key == "device_target" and asks.startswith("ms_profiler.") else target(key)


ms.context.get_context = get_context


def launch(name, kind, stream, after, length):
    if device is not None:
        device.fake_npu_runs(name, kind, stream, after * US, length * US)


class Block(nn.Cell):
    """Launch the kernels and the exchange of a step, and return the input."""

    def construct(self, x):
        launch(b"MatMul1", b"MatMul", 2, 200, 100)
        launch(b"Add1", b"Add", 2, 350, 50)
        launch(b"hcom_allReduce__001_0_1", b"hcom_allReduce_", 3, 350, 80)
        return x


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 4)
        self.block = Block()

    def construct(self, x):
        return self.fc(self.block(x))


ms.set_seed(3)
ms.set_device("CPU")
ms.set_context(mode=ms.PYNATIVE_MODE)
net = Net()
optimizer = nn.SGD(net.trainable_params(), 0.1)


def forward(x):
    return net(x).sum()


gradient = ms.value_and_grad(forward, None, optimizer.parameters)


def step():
    loss, gradients = gradient(ms.Tensor(np.ones((2, 4), np.float32)))
    optimizer(gradients)
    return loss


def record():
    session = sys.modules["ms_profiler.job.collection"].current()
    session.reopen()
    session.devices.look("NPU")
    session._stepped(1)


for _ in range(STEPS):
    loss = step()
if MODE == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if MODE == "fork":
    # a child that ends by sys.exit would crash in MindSpore's own exit, with ms-profiler and without
    child = multiprocessing.get_context("fork").Process(target=record)
    child.start()
    child.join()
    print(child.exitcode)
if MODE == "interrupted":
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
print(float(loss.asnumpy()).hex())
