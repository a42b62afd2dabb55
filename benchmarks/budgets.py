"""Measure the cost of profiling under a budget in a long job, and whether the totals from its sampled steps are right.

The job trains a few small layers for many steps, so launches take most of its time. In the last quarter of the steps,
one layer does its work twice. Each round has two bare runs and one run for each value of `overhead_budget`, in random
order. Under a budget, the summary scales its totals by operator up from the sampled steps. Two more runs record all
steps; the totals of the first one are the right ones for the comparison. How far the second one is from the first shows
the effect of chance.

There are two ratios to the bare runs. The first one is the median of the rounds' ratios of whole loops. For the second
one, each run prints the time of each fortieth of its loop. It is the sum of the medians of these times over the sum of
the medians of the bare runs. A short disturbance of the machine then affects one fortieth of one run only.

usage: budgets.py [ROUNDS] [STEPS] [LAYERS]
"""

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pairs

BUDGETS = (0.05, 0.01, 0.002)
LAYERS = 6
SLOW = 3
#: number of parts of the loop whose times a run prints
PARTS = 40
#: Smallest share of the operators' time with which an operator is compared.
LEAST_SHARE = 0.01


def job(steps: int, count: int) -> None:
    """Train `count` layers; print the seconds that each part of the training loop takes."""
    import time

    import torch

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.times = torch.nn.Linear(32, 32), 1

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            for _ in range(self.times):
                value = self.linear(value)
            return value

    torch.set_num_threads(1)
    layers = [Layer() for _ in range(count)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 32)
    part, times = steps // PARTS, [time.perf_counter()]
    for step in range(steps):
        if step == steps * 3 // 4:
            layers[SLOW].times = 2
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % part == part - 1:
            times.append(time.perf_counter())
    print(json.dumps([end - begin for begin, end in itertools.pairwise(times)]))


def run(steps: int, layers: int, budget: float | None, folder: Path) -> tuple[list[float], dict[str, Any]]:
    """Run the job, without ms-profiler if `budget` is None; return the seconds of its loop's parts and the summary."""
    environment = {name: value for name, value in os.environ.items() if name != "MS_PROFILER_OPTIONS"}
    if budget is not None:
        options = {"start": True, "quiet": True, "overhead_budget": budget, "output_path": str(folder)}
        environment["MS_PROFILER_OPTIONS"] = json.dumps({**options, "analyse": "off"})
    command = [sys.executable, __file__, "job", str(steps), str(layers)]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    if budget is None:
        return json.loads(out), {}
    (result,) = folder.glob("*_ascend_ms")
    pairs.analysed(str(result))
    (summary,) = result.rglob("summary.json")
    return json.loads(out), json.loads(summary.read_text())


def totals(summary: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return for each operator its number of calls, and its share of the time of all listed operators."""
    rows = summary["top_operators"]
    whole = sum(row["self_ms"] for row in rows)
    return {row["name"]: (row["count"], row["self_ms"] / whole) for row in rows}


def furthest(found: dict[str, tuple[float, float]], truth: dict[str, tuple[float, float]], part: int) -> float:
    """Return the largest relative difference of an operator's calls (`part` 0) or share of the time (`part` 1)."""
    return max(
        abs(found.get(name, (0, 0.0))[part] / values[part] - 1)
        for name, values in truth.items()
        if values[1] >= LEAST_SHARE
    )


def cost(paired: dict[str, Any] | None) -> str:
    """Return the cost of profiling that the summary of a run states, as text."""
    if paired is None:
        return "none"
    share, error, hooks = (f"{paired[name]:.2%}" for name in ("share", "standard_error", "hooks"))
    return f"{share} ± {error}, of which hooks {hooks} from {paired['hooks_steps']} steps"


def ratio(changed: list[list[float]], bare: list[list[float]]) -> str:
    """Return the two ratios of runs to bare runs of the same rounds, as text; a run is the times of its parts."""

    def medians(runs: list[list[float]]) -> float:
        return sum(statistics.median(part) for part in zip(*runs, strict=True))

    whole = statistics.median(sum(one) / sum(other) for one, other in zip(changed, bare, strict=True))
    return f"x{whole:.3f}, by parts x{medians(changed) / medians(bare):.3f}"


def described(summary: dict[str, Any], truth: dict[str, tuple[float, float]], steps: int) -> str:
    """Return what the summary of a run under a budget says, compared with the totals of all steps, as text."""
    sampling, found = summary["sampling"], totals(summary)
    changes = [change for change in (summary["shift"], summary["work_change"]) if change is not None]
    changed = " and ".join(
        f"change at step {change['step']} in {', '.join(each['module'] for each in change['modules']) or 'no module'}"
        for change in changes
    )
    return (
        f"{sampling['sampled'] if sampling else steps} steps sampled; calls by operator within "
        f"{furthest(found, truth, 0):.1%}, shares of time within {furthest(found, truth, 1):.1%} of all steps'; "
        f"{changed or 'no change found'}; cost by the summary: {cost(summary['cost']['paired'])}"
    )


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "job":
        job(int(sys.argv[2]), int(sys.argv[3]))
        return
    given = [int(value) for value in sys.argv[1:]]
    rounds, steps, layers = given + [3, 20_000, LAYERS][len(given) :]
    print(pairs.machine())
    with tempfile.TemporaryDirectory() as parent:
        truth, again = (totals(run(steps, layers, 0.0, Path(parent, f"everything {number}"))[1]) for number in (1, 2))
        print(f"two runs that record all steps: shares of time within {furthest(again, truth, 1):.1%} of each other")
        times: dict[float | str, list[list[float]]] = {name: [] for name in ("bare", "again", *BUDGETS)}
        summaries: dict[float | str, list[dict[str, Any]]] = {budget: [] for budget in BUDGETS}
        for number in range(rounds):
            for name in random.sample(list(times), len(times)):
                budget = name if isinstance(name, float) else None
                parts, summary = run(steps, layers, budget, Path(parent, f"{name} {number}"))
                times[name].append(parts)
                if budget is not None:
                    summaries[name].append(summary)
        each = statistics.median(sum(parts) for parts in times["bare"]) / steps
        print(
            f"{steps:,} steps of {layers} layers, {each * 1000:.2f} ms each; A/A {ratio(times['again'], times['bare'])}"
        )
        for name, runs in summaries.items():
            print(f"overhead_budget {name}: {ratio(times[name], times['bare'])}")
            for summary in runs:
                print(f"    {described(summary, truth, steps)}")


if __name__ == "__main__":
    main()
