"""What the host hooks add to a training loop: alternating blocks of one process, hooks applied and undone.

usage: loop.py [graph|pynative]
"""

import json
import os
import statistics
import sys
import tempfile
import time

import pairs

BLOCK = 128
ROUNDS = 80


def main() -> None:
    mode = sys.argv[1] if len(sys.argv) > 1 else "graph"
    directory = tempfile.mkdtemp()
    # without activity CPU there is no kernel stream: what is measured is the hooks alone
    options = {"start": True, "quiet": True, "analyse": "off", "output_path": directory, "activities": ["NPU"]}
    os.environ["MS_PROFILER_OPTIONS"] = json.dumps(options)
    from ms_profiler.job import bootstrap

    bootstrap.activate()
    import mindspore as ms
    import mindspore.dataset as ds
    import numpy as np
    from mindspore import nn
    from ms_profiler.job import session

    if mode == "graph":
        print(pairs.machine())
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    ms.set_device("CPU")
    net = nn.SequentialCell(nn.Dense(96, 96), nn.Dense(96, 96))
    train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.01))
    train.set_train()
    batches = np.ones((64, 16, 96), np.float32)
    data = ds.NumpySlicesDataset({"x": batches, "y": batches}, shuffle=False)
    iterator = data.create_tuple_iterator(num_epochs=-1)
    (plugin,) = session.current().hooks.plugins

    def block() -> float:
        """Return the median time of a step: a burst of somebody else's work is not to decide."""
        times = []
        before = time.perf_counter()
        while len(times) < BLOCK:
            for x, y in iterator:
                train(x, y).asnumpy()
                now = time.perf_counter()
                times.append(now - before)
                before = now
        return statistics.median(times)

    def bare() -> float:
        plugin.undo()
        return block()

    def hooked() -> float:
        plugin.apply(session.current())
        try:
            return block()
        finally:
            plugin.undo()

    plugin.undo()
    block()
    hooked()
    step = block()
    ratio, same, _ = pairs.compare(bare, hooked, ROUNDS)
    pairs.report(f"host hooks, {mode} mode, {step * 1e3:.2f} ms a step", ratio, same)


if __name__ == "__main__":
    main()
