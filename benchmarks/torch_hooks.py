"""Measure what ms-profiler's hooks on PyTorch cost in steps that are not sampled.

The job trains a few small layers, bound by launches. Blocks of steps with the hooks and without them alternate in one
process. The budget is so small that hardly any step is sampled.

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

    def hooked() -> float:
        block(BEFORE)
        return block(BLOCK)

    block(FIRST)
    replaced = [(held(), name, original) for held, name, original in plugin._undo if held() is not None]
    ours = [(owner, name, vars(owner)[name]) for owner, name, _ in replaced]
    registered = [dict(table) for table in tables]

    def bare() -> float:
        for owner, name, original in replaced:
            setattr(owner, name, original)
        for table in tables:
            table.clear()
        try:
            block(BEFORE)
            return block(BLOCK)
        finally:
            for owner, name, replacement in ours:
                setattr(owner, name, replacement)
            for table, hooks in zip(tables, registered, strict=True):
                table.update(hooks)

    print(pairs.machine())
    ratio, same, differences = pairs.compare(bare, hooked, rounds)
    low, middle, high = (1e6 * value for value in statistics.quantiles(differences, n=4))
    error = 0.93 * (high - low) / rounds**0.5
    steps, times = recorder.hook_times(0)
    own = (
        f"{statistics.median(times) / 1000:.1f} us measured by the hooks in {steps} steps"
        if steps
        else "not measured by the hooks"
    )
    pairs.report(
        f"all hooks, {1e3 * bare():.2f} ms a step", ratio, same, f"{middle:+.1f} ± {error:.1f} us a step; {own}"
    )


if __name__ == "__main__":
    main()
