"""Measure the cost of profiling under a budget in a long job, and whether the totals from its sampled steps are right.

The job trains a few small layers for many steps, so launches take most of its time. In the last quarter of the steps,
one layer does its work twice. For each value of `overhead_budget`, runs with and without ms-profiler alternate. Under a
budget, the summary scales its totals by operator up from the sampled steps. Two more runs record all steps; the totals
of the first one are the right ones for the comparison. How far the second one is from the first shows the effect of
chance.

usage: budgets.py [ROUNDS] [STEPS]
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pairs

BUDGETS = (0.05, 0.01, 0.002)
LAYERS = 6
SLOW = 3
#: Smallest share of the operators' time with which an operator is compared.
LEAST_SHARE = 0.01


def job(steps: int) -> None:
    """Train; print the seconds that the training loop takes."""
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
    layers = [Layer() for _ in range(LAYERS)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 32)
    begin = time.perf_counter()
    for step in range(steps):
        if step == steps * 3 // 4:
            layers[SLOW].times = 2
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(time.perf_counter() - begin)


def run(steps: int, budget: float | None, folder: Path) -> tuple[float, dict[str, Any]]:
    """Run the job, without ms-profiler if `budget` is None; return the seconds of its training loop and the summary."""
    environment = {name: value for name, value in os.environ.items() if name != "MS_PROFILER_OPTIONS"}
    if budget is not None:
        options = {"start": True, "quiet": True, "overhead_budget": budget, "output_path": str(folder)}
        environment["MS_PROFILER_OPTIONS"] = json.dumps({**options, "analyse": "off"})
    command = [sys.executable, __file__, "job", str(steps)]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    if budget is None:
        return float(out), {}
    (result,) = folder.glob("*_ascend_ms")
    pairs.analysed(str(result))
    (summary,) = result.rglob("summary.json")
    return float(out), json.loads(summary.read_text())


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


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "job":
        job(int(sys.argv[2]))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    print(pairs.machine())
    with tempfile.TemporaryDirectory() as parent:
        truth, again = (totals(run(steps, 0.0, Path(parent, f"everything {number}"))[1]) for number in (1, 2))
        print(f"two runs that record all steps: shares of time within {furthest(again, truth, 1):.1%} of each other")
        for budget in BUDGETS:
            summaries: list[dict[str, Any]] = []

            def profiled(budget: float = budget, seen: list[dict[str, Any]] = summaries) -> float:
                loop, summary = run(steps, budget, Path(parent, f"{budget} {len(seen)}"))
                seen.append(summary)
                return loop

            ratio, same, _ = pairs.compare(lambda: run(steps, None, Path(parent))[0], profiled, rounds)
            pairs.report(f"{steps:,} steps, overhead_budget {budget}", ratio, same)
            for summary in summaries:
                paired, shift, sampling = summary["cost"]["paired"], summary["shift"], summary["sampling"]
                found = totals(summary)
                changed = "no change found"
                if shift is not None:
                    modules = ", ".join(each["module"] for each in shift["modules"])
                    changed = f"change at step {shift['step']} in {modules or 'no module'}"
                print(
                    f"    {sampling['sampled'] if sampling else steps} steps sampled; calls by operator within "
                    f"{furthest(found, truth, 0):.1%}, shares of time within {furthest(found, truth, 1):.1%} of all "
                    f"steps'; {changed}; cost by the summary: {cost(paired)}"
                )


if __name__ == "__main__":
    main()
