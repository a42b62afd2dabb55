"""Train with MindSpore on the processor with cells that launch kernels of a made-up NPU.

usage: npu_job.py MODE [STEPS]

The times of the launched work are exact. In each step, the forward pass launches kernels of 100 and 50 us, and the
backward pass a kernel of 70 us. An exchange of 4 KB takes 120 us and begins on another stream 10 us before the end of
the backward kernel.
"""

import ctypes
import os
import signal
import sys
import time

MODE = sys.argv[1]
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
US = 1000
#: numbers of the streams
COMPUTE, EXCHANGE = 7, 20
TEXT, U32, U64 = ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64


def use_npu():
    """Load the libraries of a job that uses an NPU."""
    return ctypes.CDLL("libascendcl.so", mode=ctypes.RTLD_GLOBAL)


if MODE not in ("late", "unused"):
    use_npu()

import mindspore as ms  # noqa: E402 - the runtime is loaded before
import numpy as np  # noqa: E402
from mindspore import nn  # noqa: E402
from mindspore.profiler import mstx  # noqa: E402

if MODE != "bare":  # in mode "bare", nothing may load this library
    npu = ctypes.CDLL("libmspti.so")
    npu.fake_kernel.argtypes = [TEXT, TEXT, U32, U64, U64]
    npu.fake_exchange.argtypes = [TEXT, TEXT, U64, U32, U64, U64]
    npu.fake_copy.argtypes = [U32, U64, U32, U64]
    npu.fake_marker.argtypes = [U32, U64, TEXT, TEXT, ctypes.c_int]
    npu.fake_emit.argtypes = [TEXT, ctypes.c_size_t]
    npu.fake_count_from.argtypes = [U64]
    for function in (npu.fake_now, npu.fake_kernel, npu.fake_busy_until):
        function.restype = U64


def forward():
    if MODE == "bare":
        return
    npu.fake_kernel(b"MatMulV2", b"KERNEL_AICORE", COMPUTE, 0, 100 * US)
    npu.fake_kernel(b"ReLU", b"KERNEL_AIVEC", COMPUTE, 0, 50 * US)
    if MODE == "copies":
        npu.fake_copy(2, 4096, 30, 40 * US)


def backward():
    if MODE == "bare":
        return
    npu.fake_kernel(b"MatMulGrad", b"KERNEL_AICORE", COMPUTE, npu.fake_now() + 300 * US, 70 * US)
    # the exchange begins 10 us before the end of the backward kernel
    begin = npu.fake_busy_until(COMPUTE) - 10 * US
    npu.fake_exchange(b"hcom_allReduce__868", b"hccl_world_group", 1024, EXCHANGE, begin, 120 * US)


class Block(nn.Cell):
    """A block that launches kernels in both passes."""

    def construct(self, x):
        forward()
        return x * 2

    def bprop(self, x, out, gradient):
        backward()
        return (gradient * 2,)


class Net(nn.Cell):
    """A dense layer on the processor and a block on the NPU."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 4)
        self.block = Block()

    def construct(self, x):
        return self.block(self.fc(x)).sum()


def bound():
    """Sleep, and wait for a long kernel."""
    time.sleep(0.02)
    npu.fake_kernel(b"MatMulV2", b"KERNEL_AICORE", COMPUTE, 0, 30_000 * US)
    npu.fake_wait()


def mark():
    """Begin two markers from C, and one by MindSpore's function, which msPTI reports as well; return the latter."""
    npu.fake_marker(2, 1, b"tokens", b"mine", -1)
    npu.fake_marker(2, 2, b"on the stream", b"mine", COMPUTE)
    ranged = mstx.range_start("scripted", domain="mine")
    npu.fake_marker(2, 3, b"scripted", b"mine", -1)
    return ranged


def unmark(ranged):
    mstx.range_end(ranged, domain="mine")
    npu.fake_marker(4, 3, b"", b"", -1)
    npu.fake_marker(4, 2, b"", b"", COMPUTE)
    npu.fake_marker(4, 1, b"", b"", -1)


def train(steps):
    ms.set_device("CPU")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.set_seed(7)
    net = Net()
    trained = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1))
    for number in range(steps):
        if MODE == "late" and number == 1:
            use_npu()
        if MODE == "bound":
            bound()
        ranged = mark() if MODE == "markers" and number == 1 else None
        loss = trained(ms.Tensor(np.ones([2, 4], np.float32)))
        print(float(loss.asnumpy()).hex())
        if ranged is not None:
            unmark(ranged)
        if number == steps - 1 and MODE != "bare":
            npu.fake_synchronize()


if MODE == "wide":
    npu.fake_count_from(2**40 - 3)
train(STEPS)
if MODE == "killed":
    # msPTI's buffers are flushed once a second; when a flush begins, the records of the flush before it are written
    before = npu.fake_flushes()
    while npu.fake_flushes() < before + 2:
        os.sched_yield()
    os.kill(os.getpid(), signal.SIGKILL)
if MODE == "strange":
    npu.fake_kernel(None, None, COMPUTE, 0, 10 * US)
    npu.fake_synchronize()
    npu.fake_return_empty()
    npu.fake_emit(bytes(U32(2)) + bytes(52), 56)
    npu.fake_emit(bytes(U32(99)) + bytes(52), 56)
