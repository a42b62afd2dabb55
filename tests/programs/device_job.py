"""Train with PyTorch on the processor with operators that launch kernels of a made-up GPU.

usage: device_job.py MODE [STEPS]

The times of the launched work are exact. In each step, the forward pass launches kernels of 100 and 50 us, and the
backward pass a kernel of 70 us. An exchange of 120 us begins on another stream 10 us before the end of the backward
kernel. In the mode "changing", all of them take 1 us each, so launching takes most of a step. There, the block is
called three times in each step of the last third.
"""

import ctypes
import os
import signal
import sys
import time

MODE = sys.argv[1]
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
US = 1000
#: ns from the launch of the backward kernel to its begin; a busy machine may launch the exchange that much later
LEAD = {"bound": 300, "changing": 2}.get(MODE, 5000) * US
#: further ns in the mode "lagging": the kernels begin long after the step has ended on the host
LAG = (20000 if MODE == "lagging" else 0) * US
#: numbers of the streams
COMPUTE, EXCHANGE = 7, 20
NAMES = {
    "gemm": b"_Z4gemmPfi",
    "relu": b"relu_kernel",
    "grad": b"gemm_backward",
    "nccl": b"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
}

driver = ctypes.CDLL("libcuda.so.1")
if MODE not in ("late", "lazy", "unused"):
    driver.cuInit(0)

import torch  # noqa: E402 - the driver is in use before

gpu = ctypes.CDLL("libcupti.so.12")
gpu.fake_launch.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int]
gpu.fake_launch_later.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64]
gpu.fake_copy_and_wait.argtypes = [ctypes.c_uint8, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint64]


def launch(name, microseconds, lead=2 * US):
    duration = (1 if MODE == "changing" else microseconds) * US
    gpu.fake_launch_later(NAMES[name], COMPUTE, lead + LAG, duration)


library = torch.library.Library("gpu", "DEF")
library.define("forward(Tensor x) -> Tensor")
library.define("backward(Tensor x) -> Tensor")
library.define("reduce(Tensor x) -> Tensor")


def forward(x):
    launch("gemm", 100)
    launch("relu", 50)
    return x * 2


def backward(x):
    launch("grad", 70, LEAD)
    torch.ops.gpu.reduce(x)
    return x * 2


def reduce(x):
    # The exchange begins 10 us before the end of the backward kernel. In the mode "changing", it is short, too: on a
    # fast processor, launching would take less than half of a step otherwise.
    lead, duration = (0, 1) if MODE == "changing" else (10, 120)
    gpu.fake_launch(NAMES["nccl"], EXCHANGE, gpu.fake_busy_until(COMPUTE) - lead * US, duration * US, 0)
    return x.clone()


gpu.fake_busy_until.restype = ctypes.c_uint64
for function in (forward, backward, reduce):
    library.impl(function.__name__, function, "CPU")


class Doubled(torch.autograd.Function):
    """Double the input, with operators that launch kernels."""

    @staticmethod
    def forward(ctx, x):
        return torch.ops.gpu.forward(x)

    @staticmethod
    def backward(ctx, gradient):
        return torch.ops.gpu.backward(gradient)


class Block(torch.nn.Module):
    """A block that launches kernels in both passes."""

    def forward(self, x):
        return Doubled.apply(x)


class Net(torch.nn.Module):
    """A linear layer on the processor and a block on the GPU."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.block = Block()
        self.times = 1

    def forward(self, x):
        x = self.fc(x)
        for _ in range(self.times):
            result = self.block(x)
        return result


def prepare_lazily():
    """Make `torch.cuda` initialise the made-up driver lazily, as a build of PyTorch with CUDA does."""
    torch._C._cuda_getDeviceCount = lambda: 1
    torch._C._cuda_init = lambda: driver.cuInit(0)
    torch.cuda._cudart = object()
    torch.cuda.get_device_name = lambda: "made-up GPU"
    torch.cuda._queued_calls.clear()


def step(model, optimizer):
    optimizer.zero_grad()
    if MODE == "bound":
        bound()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()


def bound():
    """Sleep, wait for a kernel, wait for a copy behind a kernel, and compute, each for a different time."""
    time.sleep(0.02)
    launch("gemm", 30_000)
    gpu.fake_synchronize(COMPUTE)
    launch("relu", 15_000)
    gpu.fake_copy_and_wait(1, 1 << 20, COMPUTE, 10_000 * US)
    until = time.thread_time_ns() + 10_000 * US
    while time.thread_time_ns() < until:
        pass


def profiled(model):
    """Use PyTorch's own profiler, which subscribes to CUPTI; in mode "kept" it stays subscribed, like Kineto."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
        print("free" if not gpu.fake_is_subscribed() else "taken")
        gpu.fake_somebody_subscribes(1)
        model(torch.ones(2, 4))
        if MODE != "kept":
            gpu.fake_somebody_subscribes(0)
    print("seen" if any(event.name == "aten::addmm" for event in own.events()) else "missing")


def captured():
    """Return our profiler for the script, which starts and stops it during the variable's recording."""
    import ms_profiler

    handler = ms_profiler.tensorboard_trace_handler("own", analyse_flag=False)
    return ms_profiler.profile(start_profile=False, on_trace_ready=handler)


def train(steps):
    model = Net()
    own = captured() if MODE == "captured" else None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(steps):
        if MODE == "late" and number == 1:
            driver.cuInit(0)
        if MODE == "lazy" and number == 0:
            prepare_lazily()
            torch.cuda.init()
        if MODE == "captured" and number in (2, 4):
            own.start() if number == 2 else own.stop()
        if MODE in ("profiler", "kept") and number == 2:
            profiled(model)
        if MODE == "changing" and number == steps * 2 // 3:
            model.times = 3
        step(model, optimizer)
        if number == steps - 1:
            gpu.fake_synchronize(COMPUTE)
            gpu.fake_synchronize(EXCHANGE)
    return model


if MODE == "wrapping":
    gpu.fake_count_from(2**32 - 3)
model = train(STEPS)
if MODE == "killed":
    # CUPTI's buffers are flushed once a second; when a flush begins, the records of the flush before it are written.
    # The last kernels end 5 ms after their launch, so the next flush may come too early for them.
    before = gpu.fake_flushes()
    while gpu.fake_flushes() < before + 3:
        os.sched_yield()
    os.kill(os.getpid(), signal.SIGKILL)
if MODE == "fork":
    pid = os.fork()
    if pid == 0:
        gpu.fake_strange()
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
if MODE == "strange":
    gpu.fake_launch(None, COMPUTE, 0, 10 * US, 0)
    gpu.fake_strange()
    gpu.fake_synchronize(COMPUTE)
    gpu.fake_damage()
    gpu.fake_launch(NAMES["gemm"], COMPUTE, 0, 3600 * 10**9, 0)
print(bool(model.fc.weight.isfinite().all()))
