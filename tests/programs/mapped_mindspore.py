"""Read a dataset with three functions. usage: mapped_mindspore.py map|source|processes

A function is slow, or the source; with `processes`, two processes run the slow function.
"""

import sys
import time

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn

(place,) = sys.argv[1:]
ms.set_device("CPU")
#: other programs on the machine must not make anything else slower than 20 ms a sample
SAMPLES, EPOCHS = 60, 2
HOW = {"num_parallel_workers": 1}
if place == "processes":
    HOW = {"num_parallel_workers": 2, "python_multiprocessing": True}


class Source:
    def __getitem__(self, index):
        if place == "source":
            time.sleep(0.02)
        return np.full(8, index, np.float32)

    def __len__(self):
        return SAMPLES


def scale(x):
    return x * 0.5


def augment(x):
    if place != "source":
        time.sleep(0.02)
    return x + 1


def convert(x):
    return x.astype(np.float32)


data = ds.GeneratorDataset(Source(), ["x"], shuffle=False)
data = data.map(scale, ["x"]).map(augment, ["x"], **HOW).map(convert, ["x"]).batch(4)
net, total = nn.Dense(8, 2, weight_init="ones"), 0.0
for _ in range(EPOCHS):
    for (x,) in data.create_tuple_iterator(num_epochs=1):
        total += float(net(x).sum().asnumpy())
print(total)
