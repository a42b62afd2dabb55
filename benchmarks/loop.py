"""Measure the cost of the host hooks in a training loop; blocks of steps with and without hooks alternate.

usage: loop.py [graph|pynative]
"""

import statistics
import sys
import tempfile
import time

import pairs
import training

BLOCK = 128
ROUNDS = 80


def main() -> None:
    mode = sys.argv[1] if len(sys.argv) > 1 else "graph"
    # without the activity CPU, ms-profiler reads no kernels, so only the hooks cost time
    session = training.profiled(output_path=tempfile.mkdtemp(), activities=["NPU"])
    (plugin,) = session.hooks.plugins
    if mode == "graph":
        print(pairs.machine())
    epoch, _ = training.epoch_of(mode)

    def block() -> float:
        """Run a block; return its median step time in seconds, which a short load by other programs does not change."""
        times: list[float] = []
        before = time.perf_counter()
        while len(times) < BLOCK:
            for _ in epoch():
                now = time.perf_counter()
                times.append(now - before)
                before = now
        return statistics.median(times)

    def bare() -> float:
        plugin.undo()
        return block()

    def hooked() -> float:
        plugin.apply(session)
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
