"""Find the span that queued each kernel.

Kernels run in the order in which spans queued them. But some spans start no kernel, and some kernels have no span.
"""

from typing import Final

import polars as pl

#: lists of columns that must be equal for a kernel and its span: a section of the queue, and the primitive (`key`). The
#: list with the widest section comes first
_WINDOW: Final = ["window", "key"]
_SPELL: Final = ["spell", "key"]
_SEGMENT: Final = ["spell", "segment", "key"]
_GAP: Final = ["gap", "key"]


def key_of(name: str) -> str:
    """Return a common name of a primitive, its kernels and its functions: both `SubExt` and `sub` give `sub`."""
    return name.partition("@")[0].replace("_", "").lower().removesuffix("ext")


def match(kernels: pl.DataFrame, operators: pl.DataFrame) -> pl.Series:
    """Return for each kernel the span that queued it; null if unknown.

    Kernels and spans are compared in sections of the queue. If a section has as many kernels of a primitive as spans,
    the n-th kernel belongs to the n-th span. If the numbers differ, smaller sections are tried:

    1. Windows. A window begins where the queue is empty. Within it, the host may be several steps ahead of the kernels.
    2. Steps and the times between two steps, and then segments: a new segment begins with each backward pass. Kernels
       of a pass have no span.
    3. Gaps between two neighbouring matches, if all kernels ran on one lane.

    A match is dropped if the kernel would start before its span, or if it contradicts the order of a lane's spans.

    Args:
        kernels: `window` (null outside of all windows), `spell` (number of the step, or of the time between two
            steps; null for kernels that no span can have queued), `segment` (a number that increases with each backward
            pass), `key` (the primitive), `lane`, `start_ns`.
        operators: the spans: `window`, `spell`, `segment`, `key`, `start_ns` and `row` (the number to return).
    """
    order = kernels.with_row_index("kernel")
    spans = operators.sort("start_ns", "row").select("window", *_SEGMENT, "row", pl.col("start_ns").alias("queued_ns"))
    queued = order.drop_nulls(_WINDOW)
    sure = _in_order(_pair(queued.join(_as_many(queued, spans, _WINDOW), on=_WINDOW), spans, _WINDOW))
    runs = order.drop_nulls(_SPELL).sort("start_ns", "kernel")
    rest, left = runs.join(sure, on="kernel", how="anti"), spans.join(sure, on="row", how="anti")
    whole = _as_many(rest, left, _SPELL)
    parts = rest.join(whole, on=_SPELL, how="anti")
    parts = parts.join(_as_many(parts, left, _SEGMENT), on=_SEGMENT)
    found = _in_order(pl.concat([_pair(rest.join(whole, on=_SPELL), left, _SPELL), _pair(parts, left, _SEGMENT)]))
    matched = pl.concat([sure, _fitting(found, sure)])
    if runs["lane"].n_unique() == 1 and not matched.is_empty():
        matched = _in_order(pl.concat([matched, _between(runs, spans, matched)]))
    return order.join(matched, on="kernel", how="left", maintain_order="left")["row"].cast(pl.UInt32)


def _fitting(pairs: pl.DataFrame, sure: pl.DataFrame) -> pl.DataFrame:
    """Return those pairs of a kernel and a span that fit the order of the certain pairs (`sure`) on the same lane."""
    key = pl.struct("start_ns", "kernel")
    both = pl.concat([sure.with_columns(sure=pl.lit(True)), pairs.with_columns(sure=pl.lit(False))])
    fence = pl.when("sure").then("queued_ns")
    ordered = both.sort("lane", key).with_columns(
        after=fence.forward_fill().over("lane"), before=fence.backward_fill().over("lane")
    )
    queued = pl.col("queued_ns")
    fits = (queued >= pl.col("after")).fill_null(True) & (queued <= pl.col("before")).fill_null(True)
    return ordered.filter(~pl.col("sure") & fits).select(pairs.columns)


def _between(runs: pl.DataFrame, spans: pl.DataFrame, matched: pl.DataFrame) -> pl.DataFrame:
    """Match the kernels that lie between two neighbouring matched kernels of the same segment.

    The spans that queued these kernels lie between the spans of the two matched kernels. A segment is the part of the
    queue from one backward pass to the next.
    """
    fences = matched.sort("kernel")
    places = fences.join(runs.select("kernel", "spell", "segment"), on="kernel", maintain_order="left")
    inside = places.select("spell", "segment", gap=pl.int_range(pl.len())).filter(
        pl.col("spell") == pl.col("spell").shift(1), pl.col("segment") == pl.col("segment").shift(1)
    )
    sides = []
    for table, place, known in ((runs, "kernel", "kernel"), (spans, "queued_ns", "row")):
        gap = fences[place].search_sorted(table[place], side="left").cast(pl.Int64)
        rest = table.with_columns(gap=gap).join(matched, on=known, how="anti")
        sides.append(rest.join(inside, on=["gap", "spell", "segment"], how="semi"))
    return _pair(sides[0].join(_as_many(sides[0], sides[1], _GAP), on=_GAP), sides[1], _GAP)


def _as_many(runs: pl.DataFrame, spans: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Return the combinations of values in the columns `keys` that have as many kernels as spans."""
    counts = [table.group_by(keys).len() for table in (runs, spans)]
    return counts[0].join(counts[1], on=[*keys, "len"]).drop("len")


def _pair(runs: pl.DataFrame, spans: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Pair the n-th kernel with the n-th span of equal keys; drop keys with a kernel that starts before its span."""
    number = pl.int_range(pl.len()).over(keys).alias("number")
    return (
        runs.sort("start_ns", "kernel")
        .with_columns(number)
        .join(spans.select(*keys, "row", "queued_ns", number), on=[*keys, "number"])
        .filter((pl.col("queued_ns") <= pl.col("start_ns")).all().over(keys))
        .select("kernel", "lane", "start_ns", "row", "queued_ns")
    )


def _in_order(pairs: pl.DataFrame) -> pl.DataFrame:
    """Drop each pair that contradicts another pair. In a lane, kernels start in the order in which they were queued."""
    earlier = pl.col("queued_ns").cum_max().shift(1).over("lane")
    later = pl.col("queued_ns").cum_min(reverse=True).shift(-1).over("lane")
    crossed = (pl.col("queued_ns") < earlier) | (pl.col("queued_ns") > later)
    return pairs.sort("lane", "start_ns", "kernel").filter(~crossed.fill_null(False))
