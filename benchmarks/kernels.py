"""What kernels cost a training loop, drains counted: ours, MindSpore's recorder alone, MindSpore's own profiler.

Alternating blocks of one process: nothing, our hooks and kernel stream, MindSpore's C++ recorder of kernels and nothing
else, MindSpore's own profiler without its analysis, nothing again. Each block begins with a start and ends with a stop,
which writes out what was recorded; both are counted.

usage: kernels.py [graph|pynative]
"""

import json
import os
import statistics
import sys
import tempfile
import time

import pairs

BLOCK = 256
ROUNDS = 25


def main() -> None:
    mode = sys.argv[1] if len(sys.argv) > 1 else "graph"
    directory = tempfile.mkdtemp()
    os.environ["MS_PROFILER_OPTIONS"] = json.dumps(
        {"start": True, "quiet": True, "analyse": "off", "output_path": directory}
    )
    from ms_profiler.job import bootstrap

    bootstrap.activate()
    import mindspore as ms
    import mindspore.dataset as ds
    import numpy as np
    from mindspore import nn
    from mindspore._c_expression import Profiler
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
    current = session.current()
    (plugin,) = current.hooks.plugins
    plugin.undo()
    recorder = Profiler.get_instance("CPU")

    def steps() -> None:
        for _ in range(BLOCK // len(batches)):
            for x, y in iterator:
                train(x, y).asnumpy()

    def bare() -> float:
        begun = time.perf_counter()
        steps()
        return time.perf_counter() - begun

    def ours() -> float:
        # hooks are applied once in a run
        plugin.apply(current)
        current.sources.ended()
        begun = time.perf_counter()
        current.sources.started()
        steps()
        current.sources.ended()
        took = time.perf_counter() - begun
        plugin.undo()
        return took

    def alone() -> float:
        folder = tempfile.mkdtemp(dir=directory)
        begun = time.perf_counter()
        recorder.init(folder)
        recorder.step_profiling_enable(True)
        recorder.enable_op_time()
        steps()
        recorder.stop()
        return time.perf_counter() - begun

    def theirs() -> float:
        handler = ms.profiler.tensorboard_trace_handler(tempfile.mkdtemp(dir=directory), analyse_flag=False)
        begun = time.perf_counter()
        profiler = ms.profiler.profile(on_trace_ready=handler)
        steps()
        profiler.stop()
        return time.perf_counter() - begun

    ways = {"ours": ours, "MindSpore's recorder alone": alone, "MindSpore's own profiler": theirs, "nothing": bare}
    for way in (bare, *ways.values()):
        way()
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    added: dict[str, list[float]] = {name: [] for name in ways}
    for index in range(ROUNDS):
        order = list(ways.items())
        base = bare()
        for name, way in order if index % 2 else reversed(order):
            took = way()
            ratios[name].append(took / base)
            added[name].append((took - base) / BLOCK)
    same = statistics.median(ratios.pop("nothing"))
    for name, values in ratios.items():
        cost = statistics.median(added[name]) * 1e6
        pairs.report(f"kernels, {mode}, {name}", statistics.median(values), same, f"{cost:+.0f} us a step")


if __name__ == "__main__":
    main()
