"""Sum up the time of operators and modules by name."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.metrics.steps import milliseconds
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.nesting import lanes, threads
from ms_profiler.store.format import Category

#: largest number of names that are listed
TOP = 20

_OPERATOR: Final = pl.col("category").is_in([int(Category.OP), int(Category.TRACED)])
#: categories of spans whose time is subtracted from the operators around them
_OTHERS: Final = pl.col("category").is_in(
    [int(Category.MARKER), int(Category.OTHER), int(Category.COMMUNICATION), int(Category.COMPILE)]
)
#: key of spans that are left out of the sums. Any other key is place * `_PLACES` + name * 256 + category
_APART: Final = 2**64 - 1
#: factor of a span's place in its key; the place tells how the span counts (`sampling.places`)
_PLACES: Final = 2**40


def self_times(spans: pl.DataFrame, calls: pl.DataFrame | None = None) -> pl.DataFrame:
    """Add `duration_ns`, `self_ns` (without inner spans), and `repeated` (the same call as the outer operator).

        self(i) = duration(i) - sum of duration(j) over all j with parent(j) = i

    Only the part of j inside i counts. The parent of an operator is an operator. The time of other inner spans is
    subtracted, too: regions of the script, calls of a device's runtime, exchanges in C++.

    An operator is `repeated` if it is the only content of an operator of the same name, such as `aten::div_` in
    `aten::div_`. Then both are one call. If the outer operator contains anything else, both count, and the total of the
    name contains the inner time twice. `key_averages` of torch.profiler counts in the same way: see
    `EventList._remove_dup_nodes` and `FunctionEvent.self_cpu_time_total` in torch/autograd/profiler_util.py.

    Args:
        spans: table with the columns of `tables.SPANS`, and any further columns, which the result repeats.
        calls: the calls of a device's runtime, `process`, `thread`, `start_ns`, `end_ns`. None if the spans contain
            these calls, or if there are no calls.
    """
    times, tree = durations(spans, calls)
    row = pl.int_range(spans.height, dtype=pl.UInt32, eager=True)
    return spans.with_columns(*times, row.is_in(_repeated(tree).implode()).alias("repeated"))


def durations(spans: pl.DataFrame, calls: pl.DataFrame | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return `duration_ns` and `self_ns` of each span, as `self_times`, and the nesting of operators, as `inside`.

    Args:
        spans: table with at least the columns of `tables.SPANS`.
        calls: the calls of a device's runtime, as for `self_times`.
    """
    duration = (spans["end_ns"] - spans["start_ns"]).alias("duration_ns")
    covered, tree = inside(spans, pl.repeat(True, spans.height, eager=True), calls)
    return pl.DataFrame([duration, (duration - covered).alias("self_ns")]), tree


def inside(spans: pl.DataFrame, taken: pl.Series, calls: pl.DataFrame | None = None) -> tuple[pl.Series, pl.DataFrame]:
    """Return the time in each span that inner spans cover, and the nesting of operators.

    Args:
        spans: table with at least the columns of `tables.SPANS`.
        taken: for each span, whether its time is subtracted from the operators around it.
        calls: the calls of a device's runtime, as for `self_times`.

    Returns:
        First, the covered time of each span in ns. Second, a table of nested spans: `row` (in `spans`), `name`,
        `category` and `parent` (a row of this second table).
    """
    found = COLUMNS.inside(spans["parent"], spans["start_ns"], spans["end_ns"], taken)
    tree = _with_others(spans, taken, calls)
    if tree is None:
        row = pl.int_range(spans.height, dtype=pl.UInt32, eager=True)
        return found, spans.select("name", "category", "parent", row=row)
    own = tree.select("row", COLUMNS.inside(tree["parent"], tree["start_ns"], tree["end_ns"], tree["taken"]))
    own = own.filter(tree.select(_OPERATOR).to_series())
    return found.scatter(own["row"], own.to_series(1)), tree


def _with_others(spans: pl.DataFrame, taken: pl.Series, calls: pl.DataFrame | None) -> pl.DataFrame | None:
    """Return operators nested with the other spans that may be inside them; None if there are no other spans.

    Returns:
        `row` (in `spans`), `name`, `category`, `start_ns`, `end_ns`, `parent` (a row of this table), `taken`.
    """
    columns = ["process", "thread", "start_ns", "end_ns", "name", "category", "row", "taken"]
    numbered = spans.with_row_index("row").with_columns(taken.alias("taken"))
    others = numbered.filter(_OTHERS).select(columns)
    if calls is not None:
        others = pl.concat([others, calls.with_columns(taken=pl.lit(True))], how="diagonal_relaxed")
    if others.is_empty():
        return None
    both = pl.concat([numbered.filter(_OPERATOR).select(columns), others], how="vertical_relaxed")
    nested = COLUMNS.nest(threads(both), both["start_ns"], both["end_ns"])
    return both[nested["row"]].with_columns(nested["parent"])


def _repeated(tree: pl.DataFrame) -> pl.Series:
    """Return the `row` of each operator that is the only content of an operator of the same name.

    Args:
        tree: nested spans: `row`, `name`, `category`, and `parent` (a row of `tree`).
    """
    around = tree["parent"]
    same = (tree["name"] == tree["name"].gather(around)) & (tree["category"] == Category.OP)
    alike = tree.filter(same.fill_null(False)).select("row", "parent")
    if alike.is_empty():
        return alike["row"]
    children = around.to_frame().join(alike.select("parent").unique(), on="parent", how="semi").group_by("parent").len()
    return alike.join(children.filter(pl.col("len") == 1), on="parent", how="semi")["row"]


def sum_up(spans: pl.DataFrame) -> pl.DataFrame:
    """Add up the times of spans of the same name and category. A `repeated` span counts with the span around it.

    Args:
        spans: the spans with their self times, from `self_times`.

    Returns:
        `name` (row of the names), `category`, `count`, `total_ns`, `self_ns`, `min_ns`, `max_ns`, and `squares`: the
        sum of the squared durations in ns^2. `squares` is an exact integer, so the order of the additions does not
        matter.
    """
    length = pl.col("duration_ns")
    # one number as key is faster: grouping by it takes a third of the time of grouping by two columns
    key = (pl.col("name").cast(pl.UInt64) * 256 + pl.col("category")).alias("key")
    again = spans.filter("repeated").group_by(key).agg(pl.col("self_ns").sum().alias("again_ns"))
    counted = spans if again.is_empty() else spans.filter(~pl.col("repeated"))
    sums = counted.group_by(key).agg(
        pl.len().cast(pl.UInt64).alias("count"),
        length.sum().alias("total_ns"),
        pl.col("self_ns").sum(),
        length.min().alias("min_ns"),
        length.max().alias("max_ns"),
        length.cast(pl.Int128).pow(2).sum().alias("squares"),
    )
    if not again.is_empty():
        sums = sums.join(again, on="key", how="left").with_columns(pl.col("self_ns") + pl.col("again_ns").fill_null(0))
    return sums.select(
        (pl.col("key") // 256).cast(pl.UInt32).alias("name"),
        (pl.col("key") % 256).cast(pl.UInt8).alias("category"),
        "count",
        "total_ns",
        "self_ns",
        "min_ns",
        "max_ns",
        "squares",
    )


def sums_of(spans: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Add up the times of one part of a run's spans.

    Args:
        spans: table with the columns of `tables.UNNESTED` and `counted` (whether the span was added up before). If
            there is a column `place` (`sampling.places`), each place gets sums of its own.

    Returns:
        First, the sums, with the columns of `sum_up` and `place`. Second, for each span whether it is still open, as
        `Columns.sums` tells.
    """
    # spans that may be inside operators are added a second time, so that their time is subtracted from the operators
    others = spans.filter(_OTHERS)
    both = pl.concat([spans, others])
    place = pl.col("place") if "place" in spans.columns else pl.lit(0, pl.UInt64)
    key = (place * _PLACES + pl.col("name").cast(pl.UInt64) * 256 + pl.col("category")).alias("key")
    keys = pl.concat([spans.select(key).to_series(), pl.repeat(_APART, others.height, dtype=pl.UInt64, eager=True)])
    lane = pl.concat([lanes(spans), threads(others) * 2 + 1])
    sums, still = COLUMNS.sums(lane, both["start_ns"], both["end_ns"], keys, both["counted"])
    sums, still = sums.filter(pl.col("key") != _APART), still.head(spans.height)
    named = sums.select(
        (pl.col("key") // _PLACES).alias("place"),
        (pl.col("key") % _PLACES // 256).cast(pl.UInt32).alias("name"),
        (pl.col("key") % 256).cast(pl.UInt8).alias("category"),
        pl.exclude("key"),
    )
    return named, still


def by_level(calls: pl.DataFrame) -> pl.DataFrame:
    """Add up the calls of a driver by `level` and `name`, with the columns of `sum_up` except self times.

    Args:
        calls: table of the driver's calls, with the columns of `tables.DRIVER_CALLS`.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    return calls.group_by("level", "name").agg(
        pl.len().cast(pl.UInt64).alias("count"),
        length.sum().alias("total_ns"),
        length.min().alias("min_ns"),
        length.max().alias("max_ns"),
        length.cast(pl.Int128).pow(2).sum().alias("squares"),
    )


def add_up(sums: list[pl.DataFrame], keys: tuple[str, ...] = ("name", "category")) -> pl.DataFrame:
    """Add up the sums of several parts of a run.

    Args:
        sums: the sums of each part, from `sum_up`, at least one.
        keys: the columns to group by.
    """
    return (
        pl.concat(sums)
        .group_by(keys)
        .agg(
            pl.col("count", "total_ns", "self_ns").sum(),
            pl.col("min_ns").min(),
            pl.col("max_ns").max(),
            pl.col("squares").sum(),
        )
    )


def by_name(sums: pl.DataFrame, names: pl.Series, category: Category) -> pl.DataFrame:
    """Return the sums of one category with their names, most self time first.

    Args:
        sums: the times of operators and modules by name, from `sum_up`.
        names: texts by row.
        category: the category of the returned rows.
    """
    chosen = sums.filter(pl.col("category") == category)
    return chosen.with_columns(names.gather(chosen["name"])).sort(
        "self_ns", "total_ns", "name", descending=[True, True, False]
    )


def scaled(sums: pl.DataFrame, totals: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the columns of `by_name` for a run with only some steps recorded, with estimated totals and their errors.

    Args:
        sums: the sums of `by_name` over the recorded steps; only the longest call of each name is taken from them.
        totals: the totals of `sampling.totals` by `name`, for one category.
        names: texts by row.
    """
    known = totals.with_columns(names.gather(totals["name"]))
    longest = sums.select("name", "max_ns")
    return known.join(longest, on="name").sort("self_ns", "total_ns", "name", descending=[True, True, False])


def top(sums: pl.DataFrame, count: int = TOP) -> list[dict[str, Any]]:
    """Return the first rows of a table of `by_name` or `scaled` as records, with times in milliseconds."""
    return [
        {
            "name": row["name"],
            "count": round(row["count"]),
            "total_ms": milliseconds(row["total_ns"]),
            "self_ms": milliseconds(row["self_ns"]),
            "average_ms": milliseconds(row["total_ns"] / row["count"]),
            "max_ms": milliseconds(row["max_ns"]),
            **errors(row),
        }
        for row in sums.head(count).iter_rows(named=True)
    ]


def errors(row: dict[str, Any]) -> dict[str, Any]:
    """Return fields that tell whether a row's sums are estimates for the whole run, and their standard errors."""
    if "total_ns_error" not in row:
        return {"scaled": False, "count_error": None, "total_ms_error": None}
    count, total = row["count_error"], row["total_ns_error"]
    return {
        "scaled": True,
        "count_error": None if count is None else round(count, 3),
        "total_ms_error": None if total is None else milliseconds(total),
    }


def runtime_calls(recording: tables.Recording) -> pl.DataFrame | None:
    """Return the calls of a device's runtime with `process` and `thread`; None if there are none.

    Args:
        recording: the run.
    """
    if recording.device is None or recording.device.calls.is_empty():
        return None
    threads = recording.threads.filter(pl.col("native_tid") > 0)
    known = threads.select("process", number="thread", thread=pl.col("native_tid").cast(pl.Int64))
    found = recording.device.calls.join(known.unique("thread", keep="last"), on="thread")
    return found.select("process", "start_ns", "end_ns", thread="number")
