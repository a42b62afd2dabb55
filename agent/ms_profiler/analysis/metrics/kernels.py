"""Sums of kernel times: by primitive, by name, by module and by phase of a step."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics.binding import INFERRED, Bound
from ms_profiler.analysis.metrics.operators import TOP, errors
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.metrics.steps import milliseconds

#: core type of kernels that a framework runs on a processor of the host
HOST_CPU: Final = "HOST_CPU"

#: largest number of characters of a name in a sentence; names of C++ templates may have thousands
NAME_MOST: Final = 80

_KEYS: Final = ["kernel", "module", "bound", "part", "in_step"]


def shortened(name: str) -> str:
    """Return the name of a kernel for a sentence: cut after `NAME_MOST` characters."""
    return name if len(name) <= NAME_MOST else f"{name[: NAME_MOST - 1]}…"


def waits(executions: pl.DataFrame) -> pl.DataFrame:
    """Sort the kernels of a window (interval with records) by lane and start, and add the column `wait_ns`.

    wait(i) = start(i) - latest end of the executions before i in the lane. It is 0 if i is the first execution, and if
    i overlaps an earlier one.

    Args:
        executions: `lane`, `start_ns`, `duration_ns`.
    """
    ends = pl.col("start_ns") + pl.col("duration_ns")
    gap = pl.col("start_ns") - ends.cum_max().shift(1).over("lane")
    return executions.sort("lane", "start_ns", maintain_order=True).with_columns(
        wait_ns=gap.clip(lower_bound=0).fill_null(0)
    )


def waits_on_device(tasks: pl.DataFrame, last_ns: int | None = None) -> pl.DataFrame:
    """Sort tasks by start, and add the column `wait_ns` as Ascend's tools compute it.

    wait(i) = start(i) - end(i - 1), in order of start over all streams. It is 0 for the first task, and if the tasks i
    and i - 1 overlap. So a task can have a wait although a long exchange on another stream still runs.

    Args:
        tasks: `start_ns`, `end_ns`.
        last_ns: the end, in ns, of the task before the first of these tasks; None if no task ran before.
    """
    gap = pl.col("start_ns") - pl.col("end_ns").shift(1, fill_value=last_ns)
    return tasks.sort("start_ns", "end_ns", maintain_order=True).with_columns(
        wait_ns=gap.clip(lower_bound=0).fill_null(0)
    )


def waits_in_stream(tasks: pl.DataFrame, last_ns: dict[int, int]) -> pl.DataFrame:
    """Sort tasks by start, and add the column `wait_ns`: the time in which the stream was idle before the task.

    wait(i) = start(i) - latest end of the tasks before i in the stream. It is 0 for the first task, and if i overlaps
    an earlier task.

    Args:
        tasks: `stream`, `start_ns`, `end_ns`.
        last_ns: stream -> latest end, in ns, of the tasks that ran on the stream before these tasks.
    """
    ordered = tasks.sort("start_ns", "end_ns", maintain_order=True)
    before = pl.col("stream").replace_strict(last_ns, default=None, return_dtype=pl.Int64)
    highest = pl.max_horizontal(pl.col("end_ns").cum_max().shift(1).over("stream"), before)
    return ordered.with_columns(wait_ns=(pl.col("start_ns") - highest).clip(lower_bound=0).fill_null(0))


def sum_up(kernels: pl.DataFrame) -> pl.DataFrame:
    """Sum up the durations of kernels with the same name, module, binding and part, in steps and outside of them.

    Args:
        kernels: table of kernels, with the columns of `tables.KERNELS` and `in_step`: whether it belongs to a step.

    Returns:
        `kernel`, `module`, `bound`, `part`, `in_step`, `count`, `total_ns`, `min_ns`, `max_ns`, `squares` (sum of the
        squares of the durations).
    """
    length = pl.col("duration_ns")
    return kernels.group_by(_KEYS).agg(
        pl.len().cast(pl.UInt64).alias("count"),
        length.sum().alias("total_ns"),
        length.min().alias("min_ns"),
        length.max().alias("max_ns"),
        length.cast(pl.Float64).pow(2).sum().alias("squares"),
    )


def add_up(sums: list[pl.DataFrame], keys: list[str] | None = None) -> pl.DataFrame:
    """Add up the sums of several sections of a run, or reduce sums to fewer keys.

    Args:
        sums: results of `sum_up`, at least one.
        keys: the columns to group by; None to keep the keys of `sum_up`.
    """
    return (
        pl.concat(sums)
        .group_by(_KEYS if keys is None else keys)
        .agg(
            pl.col("count", "total_ns").sum(),
            pl.col("min_ns").min(),
            pl.col("max_ns").max(),
            pl.col("squares").sum(),
        )
    )


def deviation() -> pl.Expr:
    """Return the sample standard deviation of the durations, in ns, from the columns of `sum_up`; null if count is 1.

    deviation = sqrt((squares - total^2 / count) / (count - 1)), as in HTA's `get_gpu_kernel_breakdown`
    """
    count, total = pl.col("count").cast(pl.Float64), pl.col("total_ns").cast(pl.Float64)
    spread = (pl.col("squares") - total * total / count).clip(lower_bound=0.0)
    return pl.when(pl.col("count") > 1).then((spread / (count - 1)).sqrt()).alias("deviation")


def by_type(sums: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return the times of the kernels of each primitive and core type, the longest total first.

    ratio = total / total of all kernels

    Args:
        sums: the times of kernels by name, module and part, from `sum_up`.
        names: table of kernel names, with the columns of `tables.KERNEL_NAMES`.

    Returns:
        `name` (the primitive), `core`, `count`, `total_ns`, `min_ns`, `max_ns`, `squares`, `ratio`.
    """
    return _ranked(sums, names["type"].gather(sums["kernel"]), names["core"].gather(sums["kernel"]))


def by_name(sums: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return the times of the kernels of each full name, with the columns of `by_type` except `core`."""
    return _ranked(sums, names["full_name"].gather(sums["kernel"]))


def by_module(sums: pl.DataFrame, texts: pl.Series) -> pl.DataFrame:
    """Return the times of the kernels of each known module, with the columns of `by_type` except `core`."""
    return _ranked(sums, texts.gather(sums["module"]))


def by_part(sums: pl.DataFrame, steps: int = 1) -> dict[str, float]:
    """Return the kernels' time in each part of a training step, in ms; kernels of an unknown part are left out.

    Args:
        sums: the times of kernels, with the columns `part` and `total_ns`.
        steps: the number of steps by which to divide the times. If it is 0, the result is empty.
    """
    totals = dict(sums.group_by("part").agg(pl.col("total_ns").sum()).iter_rows())
    known = [part for part in Part if steps and part and part in totals]
    return {part.name.lower(): milliseconds(totals[part] / steps) for part in known}


def queued(sums: pl.DataFrame) -> dict[str, float]:
    """Return for each part of a step its share of the kernels' time; empty if half of this time has no known part."""
    totals = dict(sums.group_by("part").agg(pl.col("total_ns").sum()).iter_rows())
    whole = sum(totals.values())
    if 2 * totals.get(int(Part.UNKNOWN), 0) >= whole:
        return {}
    return {part.name.lower(): totals[part] / whole for part in Part if part and part in totals}


def bound(sums: pl.DataFrame) -> dict[str, int]:
    """Return the number of kernels of each kind of binding: to a module, a primitive, only a phase, or nothing."""
    to = pl.col("bound").replace(dict.fromkeys(map(int, INFERRED), int(Bound.MODULE)))
    counts = dict(sums.group_by(to).agg(pl.col("count").sum()).iter_rows())
    kinds = [kind for kind in sorted(Bound, reverse=True) if kind not in INFERRED]
    return {kind.name.lower(): int(counts.get(kind, 0)) for kind in kinds}


def module_time_share(sums: pl.DataFrame) -> float | None:
    """Return (time of the kernels bound to a module) / (time of all kernels); None if the time of all kernels is 0."""
    total, bound = (int(part["total_ns"].sum()) for part in (sums, sums.filter(pl.col("module").is_not_null())))
    return round(bound / total, 6) if total else None


def inferred(sums: pl.DataFrame, how: Bound) -> int:
    """Return the number of kernels whose module was inferred by one method.

    Args:
        sums: the times of kernels by name, module and part, from `sum_up`.
        how: the method: by the order of a backward pass, or by parameters.
    """
    return int(sums.filter(pl.col("bound") == int(how))["count"].sum())


def top(table: pl.DataFrame, count: int = TOP) -> list[dict[str, Any]]:
    """Return the first rows of a table of times, such as that of `by_type`, as dicts with times in ms."""
    return [
        {
            "name": row["name"],
            "count": round(row["count"]),
            "total_ms": milliseconds(row["total_ns"]),
            "average_ms": milliseconds(row["total_ns"] / row["count"]),
            "min_ms": milliseconds(row["min_ns"]),
            "max_ms": milliseconds(row["max_ns"]),
            "ratio": round(row["ratio"], 6),
            **errors(row),
        }
        for row in table.head(count).iter_rows(named=True)
    ]


def scaled(table: pl.DataFrame, totals: pl.DataFrame | None) -> pl.DataFrame:
    """Return a table of times, such as that of `by_type`; if steps were not recorded, estimate the run's totals.

    Args:
        table: the result of `by_type`, or a similar table.
        totals: the result of `sampling.totals`, by `name`; None if all steps were recorded.
    """
    if totals is None:
        return table
    others = [name for name in table.columns if name not in totals.columns and name != "ratio"]
    whole = totals["total_ns"].sum()
    known = totals.join(table.select("name", *others).unique("name"), on="name")
    return known.with_columns(ratio=pl.col("total_ns") / whole).sort("total_ns", "name", descending=[True, False])


def as_operators(table: pl.DataFrame) -> pl.DataFrame:
    """Return the table of `by_type` with the columns of `operators.by_name`.

    Nothing else runs inside a kernel, so its self time is its total time.
    """
    return table.with_columns(self_ns="total_ns")


def _ranked(sums: pl.DataFrame, names: pl.Series, *others: pl.Series) -> pl.DataFrame:
    total = max(int(sums["total_ns"].sum()), 1)
    named = sums.with_columns(names.alias("name"), *others).drop_nulls("name")
    return (
        add_up([named], ["name", *(other.name for other in others)])
        .sort("total_ns", "name", descending=[True, False])
        .with_columns(ratio=pl.col("total_ns") / total)
    )
