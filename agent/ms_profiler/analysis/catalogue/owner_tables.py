"""Build the two tables of modules: one with sums over all steps, one with a row for each module and step."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import module_tree
from ms_profiler.analysis.metrics.measures import Measures

_TIMES: Final = ("forward", "backward", "optimizer", "total", "self")


def modules(measures: Measures) -> pl.DataFrame:
    """Return the modules with their times in all steady steps."""
    tree, _ = measures.module_facts
    return tree.with_columns(*_named(*_TIMES, "inferred", "host", "host_self"))


def module_steps(measures: Measures) -> pl.DataFrame:
    """Return the modules with their times in each step; steps whose modules were not recorded have no rows."""
    found = measures.ownership
    sums = pl.DataFrame(schema=module_tree.SUMS) if found is None else found.sums
    within = module_tree.within(sums)
    number = measures.steps.table["number"].gather(within["step"])
    return within.with_columns(*_named(*_TIMES), number.alias("step"))


def _named(*names: str) -> list[pl.Expr]:
    return [pl.col(f"{name}_ns").alias(name) for name in names]
