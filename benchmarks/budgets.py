"""Measure the cost of profiling under a budget in a long job, and whether the totals from its sampled steps are right.

The job trains a few small layers for many steps, so launches take most of its time. In the last quarter of the steps,
one layer does its work twice. Under a budget, the summary scales its totals by operator up from the sampled steps. For
each value of `overhead_budget`, such a job runs beside one that records all steps, whose totals are the right ones. Two
more jobs that record all steps show the effect of chance. The objects of all these jobs have the same addresses: with
other addresses, an operator's share of the time differs by up to 10 % from one process to the next.

Each round has a pair of jobs for each value of `overhead_budget`, one for a schedule that waits during the whole loop,
and a pair of two bare jobs, in random order. The two jobs of a pair, one of them bare, run at the same time. Each has a
processor of its own, and they exchange their processors twenty times a second. So the speed of the machine, which
changes from one second to the next, is the same for both. Each job prints the time of each fortieth of its loop. There
are two ratios to the bare jobs: the median of the pairs' ratios of whole loops with its standard error, and the median
ratio of all fortieths.

usage: budgets.py [ROUNDS] [STEPS] [LAYERS] [BUDGET ...]

With values of `overhead_budget`, there are only the pairs of these, and the pairs of two bare jobs.
"""

import contextlib
import itertools
import json
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pairs

BUDGETS = (0.05, 0.01, 0.002)
#: a further kind of pair, as `pairs_of` returns them
WAITING: dict[str, dict[str, Any] | None] = {"a schedule that waits": {"schedule": {"wait": 1 << 30, "active": 1}}}
LAYERS = 6
SLOW = 3
#: number of parts of the loop whose times a run prints
PARTS = 40
#: seconds after which two jobs exchange their processors
TURN = 0.05
#: what a job prints when its loop can begin
READY = b"ready\n"
#: Smallest share of the operators' time with which an operator is compared.
LEAST_SHARE = 0.01
#: Operators with at least this share of the time are compared in a figure of their own.
LARGE_SHARE = 0.05


def job(steps: int, count: int, company: bool) -> None:
    """Train `count` layers and print the seconds that each part of the loop takes.

    A job that keeps another one `company` trains on until that one has ended its loop, too.
    """
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

    def train() -> None:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    print(READY.decode(), end="", flush=True)
    sys.stdin.readline()
    part, times = steps // PARTS, [time.perf_counter()]
    for step in range(steps):
        if step == steps * 3 // 4:
            layers[SLOW].times = 2
        train()
        if step % part == part - 1:
            times.append(time.perf_counter())
    print(json.dumps([end - begin for begin, end in itertools.pairwise(times)]), flush=True)
    while company and not select.select([sys.stdin], [], [], 0)[0]:
        train()


def start(
    steps: int, layers: int, given: dict[str, Any] | None, folder: Path, fixed: bool = False
) -> "subprocess.Popen[bytes]":
    """Start the job; its loop waits for a line.

    Args:
        steps: number of steps.
        layers: number of layers.
        given: options of ms-profiler; None: the job runs without it.
        folder: the directory for the result.
        fixed: whether objects have the same addresses and hashes in each process.
    """
    environment = {name: value for name, value in os.environ.items() if name != "MS_PROFILER_OPTIONS"}
    command = [sys.executable, __file__, "job", str(steps), str(layers)]
    if fixed:
        command = ["setarch", "--addr-no-randomize", *command]
        environment["PYTHONHASHSEED"] = "0"
    if given is None:
        command.append("company")
    else:
        options = {"start": True, "quiet": True, "analyse": "off", "output_path": str(folder)}
        environment["MS_PROFILER_OPTIONS"] = json.dumps(options | given)
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def together(processes: list["subprocess.Popen[bytes]"]) -> list[list[float]]:
    """Let the loops of one or two jobs run at the same time; return for each the seconds of its loop's parts."""
    places = sorted(os.sched_getaffinity(0))
    outputs = [process.stdout for process in processes if process.stdout is not None]
    for output in outputs:
        if output.readline() != READY:
            raise SystemExit("a job ended before its loop")
    waited = {output: index for index, output in enumerate(outputs)}
    found: dict[int, list[float]] = {}
    for turn in itertools.count():
        for index, process in enumerate(processes):
            place(process.pid, places[(index + turn) % len(places)])
        if turn == 0:
            for process in processes:
                if process.stdin is not None:
                    process.stdin.write(b"\n")
                    process.stdin.flush()
        for output in select.select(list(waited), [], [], TURN)[0]:
            found[waited.pop(output)] = json.loads(output.readline())
        if not waited:
            break
    for process in processes:
        process.communicate()
    return [found[index] for index in range(len(processes))]


def place(process: int, processor: int) -> None:
    """Move all threads of a process to one processor."""
    with contextlib.suppress(FileNotFoundError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), {processor})


def analysed(folder: Path) -> dict[str, Any]:
    """Analyse the result of a job; return its summary."""
    (result,) = folder.glob("*_ascend_ms")
    pairs.analysed(str(result))
    (summary,) = result.rglob("summary.json")
    found: dict[str, Any] = json.loads(summary.read_text())
    return found


def totals(summary: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return for each operator its number of calls, and its share of the time of all listed operators."""
    rows = summary["top_operators"]
    whole = sum(row["self_ms"] for row in rows)
    return {row["name"]: (row["count"], row["self_ms"] / whole) for row in rows}


def furthest(found: dict[str, tuple[float, float]], truth: dict[str, tuple[float, float]], part: int) -> float:
    """Return the largest relative difference of an operator's calls (`part` 0) or share of the time (`part` 1).

    A summary lists 20 operators. One that takes 1 % may be the 21st in one of two runs, and is left out.
    """
    return max(
        abs(found[name][part] / values[part] - 1)
        for name, values in truth.items()
        if values[1] >= LEAST_SHARE and name in found
    )


def sampled(summary: dict[str, Any], steps: int) -> str:
    """Return how many of `steps` steps a run has sampled, as text."""
    sampling = summary["sampling"]
    return f"{sampling['sampled'] if sampling else steps} steps sampled"


def compare(steps: int, layers: int, budget: float, parent: Path) -> None:
    """Run a job under `budget`, 0 for none, beside one that records all steps; print how far their totals differ."""
    folders = parent / f"everything {budget}", parent / f"totals {budget}"
    given = ({"overhead_budget": each} for each in (0.0, budget))
    together([start(steps, layers, each, folder, fixed=True) for each, folder in zip(given, folders, strict=True)])
    truth, summary = (analysed(folder) for folder in folders)
    right, found = totals(truth), totals(summary)
    large = {name: values for name, values in right.items() if values[1] >= LARGE_SHARE}
    print(
        f"totals, overhead_budget {budget}: {sampled(summary, steps)}; "
        f"calls within {furthest(found, right, 0):.1%} of all steps', shares of time within "
        f"{furthest(found, large, 1):.1%} (operators with {LARGE_SHARE:.0%} of the time or more) and "
        f"{furthest(found, right, 1):.1%} (all with {LEAST_SHARE:.0%})",
        flush=True,
    )


def pairs_of(budgets: Sequence[float]) -> dict[str, dict[str, Any] | None]:
    """Return for the name of each kind of pair the options of its second job; None: it is bare, too."""
    return {"A/A": None} | {f"overhead_budget {budget}": {"overhead_budget": budget} for budget in budgets}


def cost(paired: dict[str, Any] | None) -> str:
    """Return the cost of profiling that the summary of a run states, as text."""
    if paired is None:
        return "none"
    share, error, hooks = (f"{paired[name]:.2%}" for name in ("share", "standard_error", "hooks"))
    return f"{share} ± {error}, of which hooks {hooks} from {paired['hooks_steps']} steps"


def ratio(loops: list[list[list[float]]]) -> str:
    """Return the two ratios of the second jobs of pairs to the first ones, as text; a job is the times of its parts."""
    wholes = [sum(second) / sum(first) for first, second in loops]
    parts = [other / one for first, second in loops for one, other in zip(first, second, strict=True)]
    error = f" ± {statistics.stdev(wholes) / len(wholes) ** 0.5:.3f}" if len(wholes) > 1 else ""
    return f"x{statistics.median(wholes):.3f}{error}, by parts x{statistics.median(parts):.3f}"


def described(summary: dict[str, Any], steps: int) -> str:
    """Return what the summary of a run under a budget says of the change and of the cost, as text."""
    changes = [change for change in (summary["shift"], summary["work_change"]) if change is not None]
    changed = " and ".join(
        f"change at step {change['step']} in {', '.join(each['module'] for each in change['modules']) or 'no module'}"
        for change in changes
    )
    return (
        f"{sampled(summary, steps)}; {changed or 'no change found'}; "
        f"cost by the summary: {cost(summary['cost']['paired'])}"
    )


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "job":
        job(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] == ["company"])
        return
    given = [int(value) for value in sys.argv[1:4]]
    rounds, steps, layers = given + [3, 20_000, LAYERS][len(given) :]
    budgets = [float(value) for value in sys.argv[4:]] or BUDGETS
    kinds = pairs_of(budgets) if sys.argv[4:] else pairs_of(budgets) | WAITING
    print(pairs.machine())
    with tempfile.TemporaryDirectory() as parent:
        for budget in (0.0, *budgets):
            compare(steps, layers, budget, Path(parent))
        loops: dict[str, list[list[list[float]]]] = {kind: [] for kind in kinds}
        summaries: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        for number in range(rounds):
            for kind, options in random.sample(list(kinds.items()), len(kinds)):
                folder = Path(parent, f"{kind.replace('/', '')} {number}")
                loops[kind].append(together([start(steps, layers, each, folder) for each in (None, options)]))
                if options is not None and "overhead_budget" in options:
                    summaries[kind].append(analysed(folder))
        each = statistics.median(sum(parts) for found in loops.values() for parts, _ in found) / steps
        print(f"{steps:,} steps of {layers} layers, {each * 1000:.2f} ms each")
        for kind in kinds:
            print(f"{kind}: {ratio(loops[kind])}")
            for summary in summaries[kind]:
                print(f"    {described(summary, steps)}")


if __name__ == "__main__":
    main()
