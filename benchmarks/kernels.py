"""Measure the cost of recording MindSpore's kernels in a training loop, including the time to write their records.

One process runs blocks of steps, which alternate between six cases: nothing, our host hooks alone, our hooks and
kernels, MindSpore's C++ recorder of kernels alone, MindSpore's own profiler without its analysis, and nothing again.
Each block with a recorder begins with the start of the recorder and ends with its stop, which writes the records. The
measured time includes both. ms-profiler also empties the recorder once after its first step, to count the kernels of a
step.

usage: kernels.py [graph|pynative [ROUNDS]]
"""

import statistics
import sys
import tempfile
import time

import pairs
import training

#: number of steps in a block; a block takes about a second
BLOCK = {"graph": 1024, "pynative": 64}
ROUNDS = 25


def main() -> None:
    mode = sys.argv[1] if len(sys.argv) > 1 else "graph"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    directory = tempfile.mkdtemp()
    session = training.profiled(output_path=directory)
    (plugin,) = session.hooks.plugins
    if mode == "graph":
        print(pairs.machine())
    block = BLOCK[mode]
    epoch, length = training.epoch_of(mode)
    plugin.undo()
    import mindspore as ms
    from mindspore._c_expression import Profiler
    from ms_profiler.job.sources import NEVER

    recorder = Profiler.get_instance("CPU")

    def steps() -> None:
        for _ in range(block // length):
            for _ in epoch():
                pass

    def bare() -> float:
        begun = time.perf_counter()
        steps()
        return time.perf_counter() - begun

    def hooks() -> float:
        plugin.apply(session)
        session.sources.ended()
        session.steps.due = NEVER  # without this, a step boundary would start recording kernels again
        took = bare()
        plugin.undo()
        return took

    def ours() -> float:
        # not measured, because a job applies the hooks only once
        plugin.apply(session)
        session.sources.ended()
        begun = time.perf_counter()
        session.sources.started()
        steps()
        session.sources.ended()
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

    ways = {
        "our hooks alone": hooks,
        "our hooks and kernels": ours,
        "MindSpore's recorder alone": alone,
        "MindSpore's own profiler": theirs,
        "nothing": bare,
    }
    for way in (bare, *ways.values()):
        way()
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    added: dict[str, list[float]] = {name: [] for name in ways}
    for index in range(rounds):
        order = list(ways.items())
        base = bare()
        for name, way in order if index % 2 else reversed(order):
            took = way()
            ratios[name].append(took / base)
            added[name].append((took - base) / block)
    same = statistics.median(ratios.pop("nothing"))
    for name, values in ratios.items():
        cost = statistics.median(added[name]) * 1e6
        pairs.report(f"kernels, {mode}, {name}", statistics.median(values), same, f"{cost:+.0f} us a step")


if __name__ == "__main__":
    main()
