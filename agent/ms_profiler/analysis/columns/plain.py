"""Implement `Columns` with Polars alone."""

from collections.abc import Callable, Sequence
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.columns import calls, devices, perfetto
from ms_profiler.analysis.columns.protocol import SUMS
from ms_profiler.analysis.columns.row_parts import Choice, Integer, Part
from ms_profiler.analysis.columns.slots import (
    FINE,
    FORWARDS,
    IS_SPAN,
    NO_THREAD,
    SLOTS,
    Coarse,
    Traced,
    Wanted,
    decoded,
    names_of,
)
from ms_profiler.analysis.columns.track_events import Place, TrackEvents
from ms_profiler.store.format import CATEGORY_FINE, SLOT_SIZE, Category, Kind

#: largest value of the column `depth`
_DEEPEST: Final = 2**16 - 1


class PlainColumns:
    """Computations on columns with Polars. `protocol.Columns` describes arguments and results of the methods."""

    kind = "plain"

    def coarse(self, pieces: Sequence[bytes], wanted: Wanted, every: int) -> Coarse:
        """Return the slots without fine-grained spans, and a summary of these spans, as `Columns.coarse` describes."""
        parts, found, starts = [_no_slots()], [], [pl.Series("start_ns", [], pl.Int64)]
        for piece in pieces:
            slots = _slots(piece)
            fine = _cut(slots, wanted).filter(pl.col("category") >= CATEGORY_FINE)
            names = names_of(fine["id"], wanted.names, wanted.lost)
            found.append(
                (
                    fine.height,
                    int((names == wanted.lost).sum()),
                    min(fine["start_ns"].to_list(), default=2**63 - 1),
                    max(fine["start_ns"].to_list(), default=-(2**63)),
                    max(fine["end_ns"].to_list(), default=-(2**63)),
                    slots["thread"].last(),
                )
            )
            starts.append(fine["start_ns"].gather_every(every))
            parts.append(slots.filter(~pl.col("slot").is_in(fine["slot"].implode())))
        return Coarse(
            pl.concat(parts).select(SLOTS.names()), pl.DataFrame(found, FINE, orient="row"), pl.concat(starts)
        )

    def spans(self, pieces: Sequence[bytes], wanted: Wanted) -> pl.DataFrame:
        """Return the selected spans of a store, as `Columns.spans` describes."""
        return decoded(_cut(pl.concat([_no_slots(), *map(_slots, pieces)]), wanted), wanted)

    def devices(self, pieces: Sequence[bytes], wanted: Wanted) -> Traced:
        """Return the device records of a store, as `Columns.devices` describes."""
        return devices.traced([_slots(piece) for piece in pieces], wanted)

    def trim(self) -> None:
        """Do nothing, because Polars returns free memory to the system by itself."""

    def order(self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.Series:
        """Return the row numbers that sort spans by lane and start, as `Columns.order` describes."""
        spans = pl.DataFrame({"lane": lane, "start": start_ns, "end": end_ns}).with_row_index("row")
        return spans.sort("lane", "start", "end", descending=[False, False, True], maintain_order=True)["row"]

    def locate(self, times: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.Series:
        """Find the interval that contains each time, as `Columns.locate` describes."""
        if start_ns.is_empty():
            return pl.repeat(None, len(times), dtype=pl.UInt32, eager=True).alias("row")
        row = start_ns.search_sorted(times, side="right").cast(pl.Int64) - 1
        inside = (row >= 0) & (times < end_ns.gather(row.clip(lower_bound=0)))
        return row.zip_with(inside, pl.Series([None], dtype=pl.Int64)).cast(pl.UInt32).alias("row")

    def find(self, pairs: pl.DataFrame, known: pl.DataFrame) -> pl.Series:
        """Find pairs of numbers in a table, as `Columns.find` describes."""
        rows = known.with_row_index("row").unique(known.columns, keep="first")
        return pairs.join(rows, on=known.columns, how="left", maintain_order="left")["row"]

    def latest(self, queries: pl.DataFrame, known: pl.DataFrame) -> pl.Series:
        """Find the latest entry with the key of each query, as `Columns.latest` describes."""
        names = ["key", "time"]
        rows = known.rename(dict(zip(known.columns, names, strict=True))).with_row_index("row")
        # the join needs the queries sorted by time; the last line of this method restores their original order
        question = queries.rename(dict(zip(queries.columns, names, strict=True))).with_row_index("place").sort("time")
        found = question.join_asof(rows, on="time", by="key", check_sortedness=False)
        return found.sort("place")["row"]

    def calls(
        self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series, category: pl.Series, name: pl.Series
    ) -> pl.DataFrame:
        """Return module and innermost flag of each operator, as `Columns.calls` describes."""
        return calls.calls(self.order(lane, start_ns, end_ns), lane, start_ns, end_ns, category, name)

    def sums(
        self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series, key: pl.Series, counted: pl.Series
    ) -> tuple[pl.DataFrame, pl.Series]:
        """Sum up spans by a key, as `Columns.sums` describes."""
        order, _, parent = self.nest(lane, start_ns, end_ns)
        spans = pl.DataFrame({"lane": lane, "start": start_ns, "end": end_ns, "key": key, "counted": counted})
        still = spans.select(pl.col("end") > pl.col("start").max().over("lane")).to_series().alias("open")
        spans = spans[order]
        inside = self.inside(parent, spans["start"], spans["end"], ~spans["counted"])
        only = pl.lit(parent).is_not_null() & (pl.len().over(parent.alias("parent")) == 1)
        same = only & (spans["key"] == spans["key"].gather(parent)) & (spans["key"] % 256 == Category.OP)
        length, new = pl.col("end") - pl.col("start"), ~pl.col("counted") & ~pl.col("repeated")
        table = (
            spans.with_columns(inside.alias("inside_ns"), same.fill_null(False).alias("repeated"))
            .group_by("key")
            .agg(
                new.sum().cast(pl.UInt64).alias("count"),
                length.filter(new).sum().alias("total_ns"),
                (length.filter(~pl.col("counted")).sum() - pl.col("inside_ns").sum()).alias("self_ns"),
                length.filter(new).min().alias("min_ns"),
                length.filter(new).max().alias("max_ns"),
                length.filter(new).cast(pl.Int128).pow(2).sum().alias("squares"),
            )
        )
        return table.select(SUMS.names()), still

    def nest(self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.DataFrame:
        """Return depth and parent of each span, as `Columns.nest` describes."""
        spans = pl.DataFrame({"lane": lane, "start": start_ns, "end": end_ns}).with_row_index("row")
        ordered = spans.sort("lane", "start", "end", descending=[False, False, True], maintain_order=True)
        depths, parents = [pl.Series("depth", [], pl.UInt16)], [pl.Series("parent", [], pl.UInt32)]
        first = 0
        for length in ordered.group_by("lane", maintain_order=True).len()["len"]:
            own = ordered.slice(first, length)
            depth, parent = _nest_lane(own["start"], own["end"])
            depths.append(depth)
            parents.append(parent + first)
            first += length
        return pl.DataFrame([ordered["row"], pl.concat(depths), pl.concat(parents)])

    def inside(self, parent: pl.Series, start_ns: pl.Series, end_ns: pl.Series, taken: pl.Series) -> pl.Series:
        """Return how much of each span its children cover, as `Columns.inside` describes."""
        own = pl.DataFrame({"row": parent, "start": start_ns, "end": end_ns, "taken": taken})
        inner = own.filter(pl.col("row").is_not_null(), "taken")
        sums = (
            inner.select("row", inside_ns=pl.min_horizontal("end", end_ns.gather(inner["row"])) - pl.col("start"))
            .group_by("row")
            .agg(pl.col("inside_ns").sum())
        )
        rows = pl.select(row=pl.int_range(own.height, dtype=pl.UInt32))
        return rows.join(sums, on="row", how="left", maintain_order="left")["inside_ns"].fill_null(0)

    def rows(self, count: int, parts: Sequence[Part]) -> bytes:
        """Return rows of text that are put together from parts, as `Columns.rows` describes."""
        texts = [text for part in parts for text in _texts(part)]
        rows = pl.select(pl.concat_str(pl.repeat("", count), *texts)).to_series()
        joined: bytes = rows.str.join("").cast(pl.Binary).item()
        return joined

    def write_rows(self, stream: BinaryIO, count: int, parts: Sequence[Part]) -> None:
        """Write rows of text to a file, as `Columns.write_rows` describes."""
        stream.write(self.rows(count, parts))

    def track_events(self, to: Callable[[bytes], object], place: Place, events: TrackEvents) -> int:
        """Write events of Perfetto's trace, as `Columns.track_events` describes."""
        return perfetto.write(to, place, events)


def _no_slots() -> pl.DataFrame:
    return pl.DataFrame(schema=SLOTS).with_row_index("slot")


def _slots(slots: bytes) -> pl.DataFrame:
    """Decode the bytes of slots into a table `SLOTS`, with the number of each slot as the column `slot`."""
    # `memoryview.tolist` would take three times as long as Polars
    count = len(slots) // 8
    words = pl.Series([slots]).bin.reinterpret(dtype=pl.Array(pl.UInt64, count), endianness="little").explode()
    per = SLOT_SIZE // 8
    raw = pl.DataFrame([words.gather_every(per, offset).alias(name) for offset, name in enumerate("seaw")])
    upper = pl.col("w") // 2**32
    table = raw.select(
        pl.col("s").reinterpret(signed=True).alias("start_ns"),
        pl.col("e").reinterpret(signed=True).alias("end_ns"),
        pl.col("a").alias("arg"),
        (pl.col("w") % 2**32).cast(pl.UInt32).alias("id"),
        (upper % 256).cast(pl.UInt8).alias("kind"),
        (upper // 256 % 256).cast(pl.UInt8).alias("category"),
        (upper // 65536 % 256).cast(pl.UInt8).alias("flags"),
    )
    owner = pl.when(pl.col("kind") == Kind.THREAD).then(pl.col("arg") % 2**32).forward_fill().fill_null(NO_THREAD)
    return table.with_columns(owner.cast(pl.UInt32).alias("thread")).select(SLOTS.names()).with_row_index("slot")


def _cut(slots: pl.DataFrame, wanted: Wanted) -> pl.DataFrame:
    """Return the spans that begin in the run. If a span is still open at the end of the run, it ends there."""
    start, end = wanted.window
    first, last = wanted.possible
    spans = slots.filter(IS_SPAN, pl.col("start_ns").is_between(first, last), pl.col("end_ns") <= last)
    if start:
        spans = spans.filter(pl.col("start_ns") >= start)
        if end:
            spans = spans.filter(pl.col("start_ns") < end).with_columns(pl.col("end_ns").clip(upper_bound=end))
    return spans.filter(FORWARDS)


def _texts(part: Part) -> list[pl.Expr]:
    """Return Polars expressions for a part of a row. The part is the concatenation of their texts."""
    if isinstance(part, str):
        return [pl.lit(part)]
    if isinstance(part, Choice):
        return [pl.lit(part.texts.series.gather(part.index).fill_null(""))]
    if isinstance(part, Integer):
        return [pl.lit(part.values.cast(pl.String).fill_null(""))]
    size = pl.lit(part.values.abs())
    return [
        pl.when(pl.lit(part.values) < 0).then(pl.lit("-")).otherwise(pl.lit("")),
        (size // 1000).cast(pl.String).fill_null(""),
        (pl.lit(".") + (size % 1000).cast(pl.String).str.zfill(3)).fill_null(""),
    ]


def _nest_lane(starts: pl.Series, ends: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the depth and the parent of each span of one lane. The spans are sorted by start and falling duration."""
    rows = pl.int_range(len(starts), dtype=pl.UInt32, eager=True)
    reach = pl.select(pl.max_horizontal(ends, starts + 1)).to_series().sort()
    depth = rows.cast(pl.Int64) - reach.search_sorted(starts, side="right").cast(pl.Int64)
    depth = depth.clip(upper_bound=_DEEPEST).cast(pl.UInt16).alias("depth")
    parent: list[int | None] = []
    around: list[tuple[int, int]] = []
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        while around and around[-1][1] <= start:
            around.pop()
        parent.append(around[-1][0] if around else None)
        around.append((place, max(end, start + 1)))
    return depth, pl.Series("parent", parent, pl.UInt32)
