"""The training job whose loop the benchmarks measure; its network is small, so that added time shows."""

import importlib
import json
import os
from collections.abc import Callable
from typing import Any


def profiled(framework: str = "mindspore", **options: Any) -> Any:
    """Import a framework with `MS_PROFILER_OPTIONS` set, and return ms-profiler's session.

    Args:
        framework: "mindspore" or "torch".
        options: further options of the profiler; the job prints no messages and starts no analysis.
    """
    chosen = {"start": True, "quiet": True, "analyse": "off", **options}
    os.environ["MS_PROFILER_OPTIONS"] = json.dumps(chosen)
    from ms_profiler.job import bootstrap

    bootstrap.activate()
    importlib.import_module(framework)
    from ms_profiler.job import collection

    return collection.current()


def epoch_of(mode: str) -> tuple[Callable[[], Any], int]:
    """Return a function that trains for an epoch and yields after each step, and the number of steps in an epoch.

    Args:
        mode: "graph" or "pynative".
    """
    import mindspore as ms
    import mindspore.dataset as ds
    import numpy as np
    from mindspore import nn

    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    ms.set_device("CPU")
    net = nn.SequentialCell(nn.Dense(96, 96), nn.Dense(96, 96))
    train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.01))
    train.set_train()
    batches = np.ones((64, 16, 96), np.float32)
    data = ds.NumpySlicesDataset({"x": batches, "y": batches}, shuffle=False)
    iterator = data.create_tuple_iterator(num_epochs=-1)

    def epoch() -> Any:
        for x, y in iterator:
            train(x, y).asnumpy()
            yield

    return epoch, len(batches)
