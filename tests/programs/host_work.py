"""Do work besides training: write files, wait, make batches and set markers. usage: host_work.py DIRECTORY"""

import os
import sys
import threading

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import Tensor, nn
from mindspore.dataset.dataloader import DataLoader
from mindspore.profiler import mstx


class Squares:
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return np.full((3,), index * index, np.float32)


def files():
    net = nn.Dense(3, 3)
    ms.save_checkpoint(net, "plain.ckpt")
    ms.save_checkpoint(net, "safe.safetensors", format="safetensors")
    ms.save_checkpoint(net, "thread.ckpt", async_save="thread")
    for thread in threading.enumerate():
        if thread.name == "asyn_save_ckpt":
            thread.join()
    ms.load_param_into_net(net, ms.load_checkpoint("plain.ckpt"))
    print(sorted(ms.load_checkpoint_async("safe.safetensors").result()))
    ms.export(net, Tensor(np.ones((2, 3), np.float32)), file_name="net", file_format="MINDIR")
    ms.load("net.mindir")
    print(sorted(os.listdir()))


def waits():
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    total = x.sum()
    marker = mstx.range_start("waits")
    print(float(total), int(total), bool(total), total.item(), total.asnumpy(), x.tolist(), total, f"{total!r}")
    print([0, 1, 2][Tensor(1)], np.array(x).sum(), x.numpy().sum())
    mstx.range_end(marker)


def batches():
    data = ds.NumpySlicesDataset({"x": np.arange(4, dtype=np.float32)}, shuffle=False)
    print([float(x) for (x,) in data.create_tuple_iterator(output_numpy=True)])
    print([float(row["x"]) for row in data.create_dict_iterator(output_numpy=True)])
    print([float(row.sum()) for row in DataLoader(Squares(), batch_size=2)])
    print([float(row.sum()) for row in DataLoader(Squares(), batch_size=2, num_workers=2)])


def markers():
    mstx.mark("point")
    mstx.mark("other point", None, "mine")
    first = mstx.range_start("first")
    second = mstx.range_start("second", domain="mine")
    print(first, repr(second), first == 0, isinstance(first, int), bool(first), f"{first:03d}")
    mstx.range_end(first)
    mstx.range_end(second, "mine")
    print(mstx.range_end(0), mstx.range_end(first))


if __name__ == "__main__":
    os.makedirs(sys.argv[1])
    os.chdir(sys.argv[1])
    ms.set_seed(7)
    ms.set_device("CPU")
    files()
    waits()
    batches()
    markers()
