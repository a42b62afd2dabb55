import random

import polars as pl
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.writers import drawing


def test_spans_are_found_although_others_begin_at_the_same_time():
    generator = random.Random(3)

    def spans(count):
        rows = []
        for _ in range(count):
            start = generator.choice((0, 2**33)) + generator.randrange(40)
            identity = {"process": 1, "thread": generator.randrange(2), "name": generator.randrange(3), "category": 21}
            rows.append({**identity, "start_ns": start, "end_ns": start + generator.randrange(2)})
        return pl.DataFrame(rows, schema=tables.UNNESTED)

    known, wanted = spans(200), spans(400)
    columns = ["process", "thread", "category", "name", "start_ns", "end_ns"]
    rows = {}
    for row, span in enumerate(known.select(columns).rows()):
        rows.setdefault(span, row)
    expected = [rows.get(span) for span in wanted.select(columns).rows()]
    assert None in expected
    assert drawing.located(wanted, known).to_list() == expected
    assert drawing.located(wanted, known.clear()).to_list() == [None] * 400
    assert drawing.located(wanted.clear(), known).to_list() == []
