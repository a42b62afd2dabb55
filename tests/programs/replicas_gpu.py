"""Train data-parallel with exchanges that are kernels of a made-up GPU, like NCCL's. usage: replicas_gpu.py STEPS

One rank exchanges data with itself. Each all-reduce launches one kernel. The script calls one all-reduce after each
backward pass. In the second step it calls another one during the backward pass. The last printed line has the bytes of
each exchange, by step.
"""

import ctypes
import json
import sys

driver = ctypes.CDLL("libcuda.so.1")
driver.cuInit(0)

import torch  # noqa: E402 - the driver is in use before
from torch import distributed, nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

KERNEL = b"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
STREAM, US, WIDTH = 20, 1000, 128
gpu = ctypes.CDLL("libcupti.so.12")
gpu.fake_launch.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int]
exchanged = []


def done(result):
    """Return a finished work with a result, as PyTorch expects it of an exchange."""
    future = torch.futures.Future()
    future.set_result(result)
    return torch._C._distributed_c10d._create_work_from_future(future)


class Group(distributed.ProcessGroup):
    """A group of one rank; each of its all-reduces launches a kernel."""

    def allreduce(self, values, options):
        """Launch a kernel of 20 us, and note the bytes of the exchange."""
        gpu.fake_launch(KERNEL, STREAM, 0, 20 * US, 0)
        exchanged[-1].append(sum(value.nbytes for value in values))
        return done(values)

    def broadcast(self, values, options):
        """Return at once, because the rank has the data already."""
        return done(values)

    def allgather(self, outputs, values, options):
        """Copy the values to the outputs."""
        for (copy,), value in zip(outputs, values, strict=True):
            copy.copy_(value)
        return done(outputs)

    def getBackendName(self):  # noqa: N802 - the name of its base
        """Return the name of the backend."""
        return "one_rank"


def main(steps):
    """Train for some steps with DistributedDataParallel."""
    torch.set_num_threads(1)
    distributed.Backend.register_backend(
        "one_rank", lambda store, rank, size, timeout: Group(rank, size), devices="cpu"
    )
    distributed.init_process_group("one_rank", store=distributed.HashStore(), rank=0, world_size=1)
    exchanged.append([])
    net = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH), nn.Linear(WIDTH, 10))
    net = DistributedDataParallel(net, bucket_cap_mb=0.2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for number in range(steps):
        exchanged.append([])
        optimizer.zero_grad()
        value = net(torch.randn(8, WIDTH))
        if number == 1:
            value.register_hook(lambda gradient: distributed.all_reduce(torch.ones(3)))
        value.sum().backward()
        distributed.all_reduce(torch.ones(5))
        optimizer.step()
    distributed.destroy_process_group()


main(int(sys.argv[1]))
print(json.dumps(exchanged[1:]))
