"""Measure how often a gate is right, by trials with generated runs, which are read and judged like recorded runs.

Each run is written as a result directory and read once. The runs form pools. A trial draws its runs from a pool and
takes no run twice. The deviations of a pool's runs lie at evenly spaced quantiles of the noise, so that all pools have
the same noise.
"""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable

from ms_profiler.analysis.comparison.digest import Digest
from ms_profiler.gate import made_runs, sides
from ms_profiler.gate.made_runs import Noise
from ms_profiler.gate.verdicts import Rules, Verdict

RUNS = 5  #: number of runs on each side of a trial
POOL = 100  #: number of runs in each pool

NOISES = (0.003, 0.03, 0.08)
SLOWER = 1.1


def rates(base: list[Digest], new: list[Digest], trials: int, chance: random.Random) -> Counter[Verdict]:
    """Gate runs that are drawn at random, and return how many trials had each verdict.

    Args:
        base: the pool from which the runs of the old version are drawn.
        new: the pool from which the runs of the new version are drawn; the same list if both versions are equal.
        trials: the number of gates.
        chance: the random generator.
    """
    found: Counter[Verdict] = Counter()
    for _ in range(trials):
        if base is new:
            drawn = chance.sample(base, 2 * RUNS)
            pair = drawn[:RUNS], drawn[RUNS:]
        else:
            pair = chance.sample(base, RUNS), chance.sample(new, RUNS)
        found[sides.gate(*pair, Rules()).decision.verdict] += 1
    return found


def run(trials: int, seed: int, say: Callable[[str], None]) -> list[tuple[float, float, Counter[Verdict]]]:
    """Compare generated runs with the gate many times, and print how often each verdict occurs.

    Args:
        trials: the number of gates for each combination of noise and slowdown.
        seed: the seed of the random generator; the same seed gives the same result.
        say: called with each line of text to print.

    Returns:
        For each combination: the noise between runs, the factor by which the new version is slower, and the number of
        trials with each verdict.
    """
    chance, start, number = random.Random(seed), time.monotonic(), 0
    say(f"{trials} trials of {RUNS}+{RUNS} runs of {made_runs.STEPS} steps, seed {seed}; {POOL} result directories")
    say(
        f"of each kind; step noise {made_runs.STEP_NOISE:.0%}, {made_runs.SPIKES:.0%} of the steps x{made_runs.SPIKE:g}"
    )
    say("")
    say(f"{'noise between runs':>18}  {'new side':>9}  {'regression':>10}  {'inconclusive':>12}  {'pass':>6}")
    found = []
    for between in NOISES:
        pools: dict[float, list[Digest]] = {}
        for slower in (1.0, SLOWER):
            with tempfile.TemporaryDirectory(prefix="ms_profiler_gate_") as folder:
                paths = []
                for index in range(POOL):
                    number += 1
                    steps = made_runs.durations(Noise(between, slower), chance, (index + 0.5) / POOL)
                    paths.append(made_runs.write(folder, number, steps))
                pools[slower] = sides.read(paths)
            seen = rates(pools[1.0], pools[slower], trials, chance)
            found.append((between, slower, seen))
            shares = [seen[verdict] / trials for verdict in (Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.PASS)]
            say(f"{between:>18.1%}  {slower - 1:>+9.0%}  {shares[0]:>10.1%}  {shares[1]:>12.1%}  {shares[2]:>6.1%}")
    say("")
    say(f"{number} directories were read; all took {time.monotonic() - start:.0f} s")
    return found
