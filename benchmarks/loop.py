"""Cost of the host hooks in a training loop: alternating blocks of one process, hooks applied and undone.

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
    # without activity CPU there is no kernel stream: only the hooks are measured
    session = training.profiled(output_path=tempfile.mkdtemp(), activities=["NPU"])
    (plugin,) = session.hooks.plugins
    if mode == "graph":
        print(pairs.machine())
    epoch, _ = training.epoch_of(mode)

    def block() -> float:
        """Return the median time of a step: a burst of somebody else's work is not to decide."""
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
