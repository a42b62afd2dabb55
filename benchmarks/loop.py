"""What the host hooks add to a training loop: alternating blocks of one process, hooks applied and undone.

usage: loop.py [graph|pynative]
"""

import json
import os
import sys
import tempfile
import time

import pairs

BLOCK = 60
ROUNDS = 40


def main() -> None:
    mode = sys.argv[1] if len(sys.argv) > 1 else "graph"
    directory = tempfile.mkdtemp()
    options = {"start": True, "quiet": True, "analyse": "off", "output_path": directory}
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
    net = nn.SequentialCell(*[nn.Dense(128, 128) for _ in range(6)])
    train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.01))
    train.set_train()
    batches = np.ones((64, 64, 128), np.float32)
    data = ds.NumpySlicesDataset({"x": batches, "y": batches}, shuffle=False)
    iterator = data.create_tuple_iterator(num_epochs=-1)
    (plugin,) = session.current()._plugins

    def block() -> float:
        done = 0
        start = time.perf_counter()
        while done < BLOCK:
            for x, y in iterator:
                loss = train(x, y)
                loss.asnumpy()
                done += 1
        return (time.perf_counter() - start) / done

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
