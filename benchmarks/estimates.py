"""Measure how far the totals of sampled steps are from those of all steps, in one and the same run.

Two runs of a job differ in their times by some per cent, whatever is recorded. So this program compares the estimate
with the truth within one run. The job of `budgets.py` runs once with all steps recorded. It also runs once for each
value of `overhead_budget`; this tells which steps such a run samples. From the run with all steps, only these steps are
then taken. The analysis estimates the totals of all steps from them, as it does for a sampled run.

The result is the largest and the median relative difference of an operator or a module, in calls and in time. Those
with less than 1 % of the time are left out.

usage: estimates.py [STEPS] [LAYERS] [ROUNDS]
"""

import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import budgets
import pairs
import polars as pl
from ms_profiler.analysis.metrics import operators, sampling, steps as stepping
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.readers import store
from ms_profiler.store.format import Category

#: kind of spans -> their category and the column with the time that is compared
KINDS = {"operators": (Category.OP, "self_ns"), "modules": (Category.MODULE, "total_ns")}


def read(folder: Path) -> tuple[Steps, pl.DataFrame]:
    """Return the steps of a result, and its spans with their own times."""
    (result,) = folder.glob("*_ascend_ms")
    vars(store)["MOST_SLOTS"] = 1 << 30  # read all operators at once, however long the run is
    recording = store.read(str(result))
    return stepping.choose(recording), operators.self_times(recording.spans, operators.runtime_calls(recording))


def totals(steps: Steps, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the calls and times of each name, estimated for all steps."""
    sums = sampling.sum_up(spans, steps)
    between = sampling.between(sums, steps, spans)
    sample = sampling.sample(steps, spans)
    columns = ["count", "total_ns", "self_ns"]
    return sampling.totals(sums, ["name", "category"], columns, sample, between)


def differences(found: pl.DataFrame, truth: pl.DataFrame, category: Category, column: str) -> str:
    """Return the relative differences of calls and of a time, as text."""
    known = truth.filter(pl.col("category") == category, pl.col(column) >= budgets.LEAST_SHARE * pl.col(column).sum())
    both = known.join(found, on=["name", "category"], how="left", suffix="_found").fill_null(0)
    texts = []
    for title, each in (("calls", "count"), ("time", column)):
        far = (both[f"{each}_found"] / both[each] - 1).abs().to_list()
        texts.append(f"{title} within {max(far):.1%} (median {statistics.median(far):.1%})")
    return f"{len(both)}: {', '.join(texts)}"


def main() -> None:
    given = [int(value) for value in sys.argv[1:]]
    count, layers, rounds = given + [20_000, budgets.LAYERS, 2][len(given) :]
    print(pairs.machine())
    with tempfile.TemporaryDirectory() as parent:
        for number in range(rounds):
            budgets.run(count, layers, 0.0, Path(parent, f"everything {number}"))
            steps, spans = read(Path(parent, f"everything {number}"))
            truth = totals(steps, spans)
            print(f"{steps.table.height:,} steps, {spans.height:,} spans")
            for budget in budgets.BUDGETS:
                budgets.run(count, layers, budget, Path(parent, f"{budget} {number}"))
                pattern = read(Path(parent, f"{budget} {number}"))[0].table.select(
                    "number", "content", "recorded", "stretch"
                )
                plain = steps.table.drop("content", "recorded", "stretch")
                table = plain.join(pattern, on="number", how="left", maintain_order="left").select(steps.table.columns)
                found = totals(replace(steps, table=table), spans)
                print(f"overhead_budget {budget}: {int(table['recorded'].sum()):,} steps sampled")
                for title, (category, column) in KINDS.items():
                    print(f"    {title}, {differences(found, truth, category, column)}")


if __name__ == "__main__":
    main()
