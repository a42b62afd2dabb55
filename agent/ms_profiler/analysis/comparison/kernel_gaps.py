"""Find the module to which the time between two kernels of a graph belongs.

MindSpore runs the kernels of a compiled graph on a CPU one after another. Between two kernels, its runtime launches the
next one. No module of the host surrounds this time, because no Python code runs. If both kernels are those of one
module, the time between them is spent inside this module; otherwise, inside the innermost module around both.
"""

from collections.abc import Mapping

import polars as pl

from ms_profiler.analysis.metrics import intervals, module_paths


def gaps(kernels: pl.DataFrame, graphs: pl.DataFrame, texts: pl.Series, stages: Mapping[int, str]) -> pl.DataFrame:
    """Return the intervals between kernels of the same call of a graph: `gap_module` and `gap_stage`, and the times.

    Kernels of different stages have an empty stage between them.

    Args:
        kernels: the kernels of one process: `start_ns`, `end_ns`, `module` (row of `texts`) and `part`.
        graphs: the calls of graphs on the stepping thread, disjoint and sorted by time.
        texts: the paths of modules.
        stages: number of a stage, from the column `part` -> its name.
    """
    ordered = kernels.sort("start_ns", "end_ns")
    table = ordered.select(
        *(pl.col(name).shift(1).alias(f"{name}_before") for name in ("module", "part")),
        *("module", "part"),
        start_ns=pl.col("end_ns").cum_max().shift(1),
        end_ns="start_ns",
    )
    table = table.filter(pl.col("end_ns") > pl.col("start_ns"))
    call, until = (intervals.locate(table[name], graphs) for name in intervals.BOUNDS)
    inside = table.filter((call == until).fill_null(False))
    both = inside.select("module_before", "module").unique()
    paths = [texts.gather(both[name]).fill_null("").to_list() for name in both.columns]
    shared = [module_paths.common(pair) or "" for pair in zip(*paths, strict=True)]
    known = both.with_columns(gap_module=pl.Series(shared, dtype=pl.String))
    part = pl.col("part").cast(pl.Int64).replace_strict(stages, default="", return_dtype=pl.String)
    stage = pl.when(pl.col("part") == pl.col("part_before")).then(part).otherwise(pl.lit(""))
    named = inside.join(known, on=["module_before", "module"], how="left", nulls_equal=True, maintain_order="left")
    return named.select("gap_module", stage.alias("gap_stage"), *intervals.BOUNDS)
