import itertools
import random

import polars as pl
from ms_profiler.analysis.metrics import intervals


def frame(*rows):
    return pl.DataFrame(rows, schema={"start_ns": pl.Int64, "end_ns": pl.Int64}, orient="row")


def covered(rows):
    return {moment for start, end in rows for moment in range(start, end)}


def random_set(generator):
    starts = [generator.randrange(100) for _ in range(generator.randrange(12))]
    return [(start, start + generator.randrange(20)) for start in starts]


def test_union_covers_the_same_moments_without_overlap():
    generator = random.Random(4)
    for _ in range(200):
        rows = random_set(generator)
        union = intervals.union(frame(*rows)).rows()
        assert covered(rows) == covered(union)
        assert all(end < start for (_, end), (start, _) in itertools.pairwise(union))
        assert intervals.total_ns(frame(*union)) == len(covered(rows))


def test_timeline_counts_open_intervals():
    generator = random.Random(5)
    for _ in range(100):
        sets = {"a": random_set(generator), "b": random_set(generator)}
        if not any(sets.values()):
            continue
        line = intervals.timeline({label: frame(*rows) for label, rows in sets.items()})
        for start, end, a, b in line.rows():
            for moment in range(start, end):
                assert a == sum(first <= moment < last for first, last in sets["a"])
                assert b == sum(first <= moment < last for first, last in sets["b"])


def test_timeline_adds_weights():
    rows = pl.DataFrame({"start_ns": [0, 5], "end_ns": [10, 10], "weight": [3, 4]})
    line = intervals.timeline({"x": rows}, {"x": "weight"})
    assert line.rows() == [(0, 5, 3), (5, 10, 7)]


def test_merge_joins_adjacent_intervals_of_a_key():
    pieces = pl.DataFrame({"start_ns": [0, 5, 8, 20], "end_ns": [5, 8, 10, 30], "key": [1, 1, 2, 2]})
    assert intervals.merge(pieces, "key").rows() == [(0, 8, 1), (8, 10, 2), (20, 30, 2)]


def test_times_are_located_in_intervals():
    generator = random.Random(7)
    for _ in range(100):
        rows = intervals.union(frame(*random_set(generator)))
        found = intervals.locate(pl.Series(range(-5, 130), dtype=pl.Int64), rows).to_list()
        for time, row in zip(range(-5, 130), found, strict=True):
            inside = [number for number, (start, end) in enumerate(rows.rows()) if start <= time < end]
            assert ([] if row is None else [row]) == inside
    assert intervals.locate(pl.Series([None, 3], dtype=pl.Int64), frame((0, 9))).to_list() == [None, 0]


def test_difference_and_part():
    generator = random.Random(8)
    for _ in range(100):
        first, second = random_set(generator), random_set(generator)
        difference = intervals.subtract(intervals.union(frame(*first)), frame(*second)).rows()
        assert covered(difference) == covered(first) - covered(second)
        shared = intervals.intersect(frame(*first), frame(*second)).rows()
        assert covered(shared) == covered(first) & covered(second)
        part = intervals.clip(frame(*first), 20, 50).rows()
        assert covered(part) == covered(first) & set(range(20, 50))
