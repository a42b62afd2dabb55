"""Device slots become columns with the type of each record, and with nulls for its missing parts."""

import os
import random

import polars as pl
from column_kinds import BOTH, packed, wanted
from ms_profiler.analysis.columns.slots import CALLS, CAUSED, RAN, Traced
from ms_profiler.store.device_format import Device
from ms_profiler.store.format import Category, Kind
from polars.testing import assert_frame_equal

HEAD = (9, 4711, 7, 1, Kind.THREAD, 0, 0, 0)


def pair(low, high):
    return low | high << 32


def head(what, start=10, end=20, correlation=3, tid=0, name=1):
    return (start, end, pair(correlation, tid), name, Kind.DEVICE, what, 1, 1)


def place(what, device=1, stream=2, context=3, graph=4, amount=2**63, detail=2):
    return (pair(device, stream), pair(context, graph), amount, detail, Kind.DEVICE_PLACE, what, 1, 0)


def test_records_by_hand(columns):
    """A record is one slot or two. Calls, computing tasks and other records go into separate tables."""
    first = packed(
        HEAD,
        head(Device.API, 10, 20, 2**32 - 1, 4711),
        head(Device.KERNEL, 30, 40),
        place(Device.KERNEL, 2**32 - 1),
        head(Device.COPY, 31, 35, tid=77, name=99),
        place(Device.COPY),
        (5, 6, 7, 1, Kind.SPAN, Category.OP, 0, 0),
        head(Device.COMMUNICATION, 50, 60, 4),
        head(Device.OVERHEAD, 70, 80, 0, name=2),
        place(Device.OVERHEAD, 0, 0, 0, 0, 0, 0),
    )
    found = columns.devices([first, packed(head(Device.GRAPH, 90, 95, 5), place(Device.GRAPH))], wanted())
    assert (found.calls.schema, found.ran.schema, found.others.schema) == (CALLS, RAN, CAUSED)
    assert found.calls.rows() == [(7, 2**32 - 1, 4711, 1010, 1020)]
    assert found.ran.rows() == [
        (Device.KERNEL, 7, 5, 3, 2**32 - 1, 2, 3, 4, 2**63, 1030, 1040, 1),
        (Device.COMMUNICATION, 7, 0, 4, 0, 0, 0, 0, 0, 1050, 1060, 1),
        (Device.GRAPH, 7, 5, 5, 1, 2, 3, 4, 2**63, 1090, 1095, 1),
    ]
    assert found.others.rows() == [
        (Device.COPY, 1, 5, 3, 1, 2, 3, 4, 2**63, 1031, 1035, 1, 77),
        (Device.OVERHEAD, 5, 0, 0, 0, 0, 0, 0, 0, 1070, 1080, 1, 0),
    ]


def test_incomplete_pieces(columns):
    """The columns lack a place without a head.

    A head without a place gets nulls, and never the place of another record.
    """
    pieces = [packed(place(Device.KERNEL), head(Device.KERNEL)), packed(place(Device.KERNEL))]
    found = columns.devices(pieces, wanted())
    assert found.ran.rows() == [(Device.KERNEL, 7, 0, 3, 0, 0, 0, 0, 0, 1010, 1020, 1)]
    nothing = columns.devices([], wanted())
    assert [part.height for part in (nothing.calls, nothing.ran, nothing.others)] == [0, 0, 0]
    assert nothing.ran.schema == RAN


def test_both_read_alike():
    generator = random.Random(11)
    slots = [
        generator.choice(
            (
                head(generator.randrange(12), generator.randrange(900), 1000, generator.randrange(2**32), 5, 2),
                place(generator.randrange(12), stream=generator.randrange(2**32)),
                (5, 6, 7, 1, Kind.SPAN, Category.OP, 0, 0),
            )
        )
        for _ in range(5000)
    ]
    knots = ((0, 1000), (300, 1290), (700, 1800))
    native, plain = (each.devices([packed(*slots)], wanted(knots=knots)) for each in BOTH)
    for name in ("calls", "ran", "others"):
        assert_frame_equal(getattr(native, name), getattr(plain, name))
        assert getattr(native, name).height > 50


def resident():
    """Return the bytes of memory that this process holds."""
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_the_memory_of_a_dropped_column_is_free():
    """Columns are sorted one after the other, so that a long run is not in memory twice."""
    native, count = BOTH[0], 400_000
    ran = native.devices([packed(HEAD) + packed(head(Device.KERNEL), place(Device.KERNEL)) * count], wanted()).ran
    columns = {column.name: column for column in ran.get_columns()}
    del ran
    native.trim()
    before = resident()
    for name in ("start_ns", "end_ns", "amount"):
        del columns[name]
    native.trim()
    assert before - resident() > 0.9 * 3 * 8 * count


def test_numbers_take_few_bytes_and_keep_their_values(columns):
    """Parts of a run may store the same column in different types."""
    numbers = [{"device": 1, "stream": 7, "graph": 0}, {"device": 2, "stream": 70_000, "graph": 300}]
    parts = [
        columns.devices([packed(HEAD, head(Device.KERNEL), place(Device.KERNEL, **each, amount=5))], wanted())
        for each in numbers
    ]
    narrow = [part.narrowed() for part in [*parts, columns.devices([packed(HEAD)], wanted())]]
    types = [[part.ran.schema[name] for name in ("device", "stream", "graph", "amount")] for part in narrow]
    small = pl.UInt8()
    assert types == [[small] * 4, [small, pl.UInt32(), pl.UInt16(), small], [small] * 4]
    assert Traced.joined(narrow).ran.rows() == [row for part in parts for row in part.ran.rows()]
    assert [part.ran.height for part in narrow] == [1, 1, 0]
    assert Traced.joined([]).ran.schema == RAN
