"""Measure what ms-profiler's hooks on PyTorch cost in steps that are not sampled.

The job trains a few small layers, bound by launches. Blocks of steps with the hooks and without them alternate in one
process. The budget is so small that hardly any step is sampled, and that most hooks rest between bursts. The first line
measures hooks at rest, the second line hooks that do not rest.

usage: torch_hooks.py [ROUNDS]
"""

import json
import os
import statistics
import sys
import tempfile
import time

import pairs
from budgets import LAYERS

#: number of steps of a block, and of steps before it that are not measured, because the caches of the interpreter for
#: attributes are filled again after a change of a class
BLOCK, BEFORE = 50, 5
#: number of steps before the first block: the first 32 steps and a few bursts are sampled
FIRST = 3000


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    options = {"start": True, "quiet": True, "analyse": "off", "overhead_budget": 0.0001}
    os.environ["MS_PROFILER_OPTIONS"] = json.dumps({**options, "output_path": tempfile.mkdtemp()})
    from ms_profiler.job import bootstrap

    bootstrap.activate()
    import torch
    from ms_profiler.job import collection
    from torch.optim import optimizer as optimizers

    torch.set_num_threads(1)
    recorder = collection.current().recorder
    (plugin,) = collection.current().hooks.plugins
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(32, 32)) for _ in range(LAYERS)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 32)
    tables = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)

    def block(steps: int) -> float:
        """Train; return the seconds of a step."""
        begin = time.perf_counter()
        for _ in range(steps):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return (time.perf_counter() - begin) / steps

    block(FIRST)
    rest = collection.current().sources.rest
    replaced = [(held(), name, original) for held, name, original in plugin._undo if held() is not None]

    def measure(title: str) -> None:
        """Measure the hooks that are there now."""
        present = [
            (owner, name, function, original)
            for owner, name, original in replaced
            if (function := vars(owner)[name]) is not original
        ]
        registered = [dict(table) for table in tables]
        before, *_ = recorder.hook_times(0)

        def hooked() -> float:
            for owner, name, function, _ in present:
                setattr(owner, name, function)
            for table, hooks in zip(tables, registered, strict=True):
                table.update(hooks)
            block(BEFORE)
            return block(BLOCK)

        def bare() -> float:
            for owner, name, _, original in present:
                setattr(owner, name, original)
            for table in tables:
                table.clear()
            block(BEFORE)
            return block(BLOCK)

        ratio, same, differences = pairs.compare(bare, hooked, rounds)
        low, middle, high = (1e6 * value for value in statistics.quantiles(differences, n=4))
        error = 0.93 * (high - low) / rounds**0.5
        step = 1e3 * bare()
        hooked()
        _, times, _ = recorder.hook_times(before)
        own = f"{statistics.median(times) / 1000:.1f} us measured by the hooks in {len(times)} steps"
        pairs.report(f"{title}, {step:.2f} ms a step", ratio, same, f"{middle:+.1f} ± {error:.1f} us a step; {own}")

    print(pairs.machine())
    if rest.resting:
        measure("hooks at rest, as between bursts")
    rest.stop()
    block(BEFORE)
    measure("hooks that do not rest")


if __name__ == "__main__":
    main()
