"""Run dataset pipelines that each have one slow part. usage: pipelines.py KIND

train     two epochs of a pipeline whose Map computes, then one epoch of a pipeline whose consumer is slow
source    a pipeline whose source sleeps
forever   the pipeline of `train`, until the process is killed; prints "running" after some batches
beside    several pipelines at a time: some run in threads or inside others, and one is still open at the end
"""

import sys
import threading
import time

import mindspore.dataset as ds
import numpy as np

ROWS = np.arange(4000, dtype=np.float32).reshape(-1, 4)
ds.config.set_monitor_sampling_interval(50)


def compute(row):
    end = time.thread_time() + 0.004
    while time.thread_time() < end:
        pass
    return row + 1


def slow_map():
    return ds.NumpySlicesDataset(ROWS[:256], ["x"], shuffle=False).map(compute, ["x"], num_parallel_workers=1).batch(4)


def fast(rows=400):
    return ds.NumpySlicesDataset(ROWS[:rows], ["x"]).map(lambda row: row + 1, ["x"]).shuffle(8).batch(4)


def sleepy():
    for row in ROWS[:200]:
        time.sleep(0.005)
        yield (row,)


def consume(dataset, seconds=0.0, epochs=1):
    total = 0.0
    for (batch,) in dataset.create_tuple_iterator(num_epochs=epochs, output_numpy=True):
        total += float(batch.sum())
        time.sleep(seconds)
    return total


class Source:
    """Yield the batches of another pipeline."""

    def __iter__(self):
        yield from fast(40).create_tuple_iterator(num_epochs=1, output_numpy=True)


kind = sys.argv[1]
if kind == "train":
    training = slow_map()
    for _ in range(2):
        print(consume(training))
    print(round(consume(fast(), 0.01)))
elif kind == "source":
    print(consume(ds.GeneratorDataset(sleepy, ["x"]).map(lambda row: row, ["x"]).batch(4)))
elif kind == "forever":
    for number, _ in enumerate(slow_map().repeat(1000).create_tuple_iterator()):
        if number == 5:
            print("running", flush=True)
elif kind == "beside":
    training = fast(4000).create_tuple_iterator(num_epochs=1)
    for _ in range(5):
        next(training)
        consume(fast(40))
    threads = [threading.Thread(target=lambda: [consume(fast(40)) for _ in range(10)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del training
    consume(ds.GeneratorDataset(Source(), ["x"]))
    left = fast(4000).create_tuple_iterator(num_epochs=1)
    next(left)
    print("done")
