"""What to try, each with the numbers that speak for it; nothing without them."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from ms_profiler.analysis.metrics.phases import NAMES
from ms_profiler.analysis.metrics.pipelines import Pipeline
from ms_profiler.store.format import Category

#: phases that take this part of a step are worth a word
WORTH = {Category.DATA: 0.2, Category.SYNC: 0.1, Category.CHECKPOINT: 0.1, Category.COMMUNICATION: 0.2}
#: compiling in more steps than this is not warming up any more
WARM_UP_STEPS = 2
#: the 95th percentile over the median from which steps are called uneven
UNEVEN = 2.0

_ACTIONS = {
    Category.DATA: "Give the dataset more workers (num_parallel_workers), prefetch, or move work out of the pipeline.",
    Category.SYNC: "Fetch values (asnumpy, item, print of a loss) less often: each makes the host wait for the device.",
    Category.CHECKPOINT: "Save checkpoints less often, or asynchronously.",
    Category.COMMUNICATION: "Overlap gradient exchange with the backward pass, or exchange fewer bytes.",
}


def advice(
    shares: pl.DataFrame,
    statistics: dict[str, Any],
    compiled_steps: int,
    steps: int,
    pipelines: Sequence[Pipeline] = (),
) -> list[dict[str, Any]]:
    """Return `what`, `evidence` and `action` of each thing worth trying, most time first.

    Args:
        shares: of `phases.shares`.
        statistics: of the steady steps.
        compiled_steps: recorded steps in which something was compiled.
        steps: recorded steps.
        pipelines: dataset pipelines, the most important one first.
    """
    steady = dict(shares.select("phase", "steady_share").iter_rows())
    found = [
        (
            steady[NAMES[category]],
            NAMES[category],
            *_reason(category, f"{steady[NAMES[category]] * 100:.1f} % of the steady steps", pipelines),
        )
        for category, worth in WORTH.items()
        if steady.get(NAMES[category], 0.0) >= worth
    ]
    if compiled_steps > WARM_UP_STEPS:
        total = dict(shares.select("phase", "share").iter_rows())[NAMES[Category.COMPILE]]
        found.append(
            (
                total,
                "compile",
                f"{compiled_steps} of {steps} recorded steps compiled, {total * 100:.1f} % of their time",
                "Keep shapes constant (drop_remainder, padding) or declare them dynamic, so that a graph is reused.",
            )
        )
    median, tail = statistics["median_ms"], statistics["p95_ms"]
    if statistics["count"] >= 20 and median and tail > UNEVEN * median:
        found.append(
            (
                0.0,
                "uneven steps",
                f"95th percentile {tail:.3f} ms, median {median:.3f} ms",
                "Look at the slowest steps in the trace: steps.slowest names them.",
            )
        )
    found.sort(key=lambda item: -item[0])
    return [{"what": what, "evidence": evidence, "action": action} for _, what, evidence, action in found]


def _reason(category: Category, evidence: str, pipelines: Sequence[Pipeline]) -> tuple[str, str]:
    """Return evidence and action for a phase; for data, what the pipeline's queues say where they say something."""
    finding = pipelines[0].slowest() if category == Category.DATA and pipelines else None
    if finding is None or finding.slow is None:
        return evidence, _ACTIONS[category]
    return f"{evidence}; {finding.evidence}", finding.action
