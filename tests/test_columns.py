"""What the extension does with columns, and what Polars does in its place: the same."""

import errno
import io
import random
import subprocess
import sys

import polars as pl
import pytest
from conftest import environment
from ms_profiler import _columns
from ms_profiler.analysis.columns import COLUMNS, Choice, Integer, Microseconds, Texts
from ms_profiler.analysis.columns.base import NO_THREAD, SLOTS
from ms_profiler.analysis.columns.native import NativeColumns
from ms_profiler.analysis.columns.plain import PlainColumns
from ms_profiler.store import format as fmt
from ms_profiler.store.format import Kind
from polars.testing import assert_frame_equal, assert_series_equal

BOTH = (NativeColumns(), PlainColumns())


@pytest.fixture(params=BOTH, ids=lambda columns: columns.kind)
def columns(request):
    return request.param


def spans(rows):
    lanes, starts, ends = zip(*rows, strict=True) if rows else ((), (), ())
    return pl.Series(lanes, dtype=pl.UInt64), pl.Series(starts, dtype=pl.Int64), pl.Series(ends, dtype=pl.Int64)


def drawn(generator, count):
    """Spans that stand in each other, cross, touch, take no time, and begin together."""
    starts = [generator.randrange(3 * count) for _ in range(count)]
    return [(generator.choice((0, 1, 2**40)), start, start + generator.randrange(60)) for start in starts]


def test_the_extension_is_used_where_it_can_be_loaded():
    program = "import sys{}; from ms_profiler.analysis.columns import COLUMNS; print(COLUMNS.kind)"
    for without, kind in (("", "native"), ("; sys.modules['ms_profiler._columns'] = None", "plain")):
        command = [sys.executable, "-c", program.format(without)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
        assert done.stdout.split() == [kind]
    assert COLUMNS.kind == "native"


def test_slots_have_the_thread_of_the_last_head_before_them(columns):
    slots = [
        (1, 2, 3, 4, Kind.SPAN, 5, 6, 0),
        (9, 4711, 7, 1, Kind.THREAD, 0, 0, 0),
        (2**63 - 1, 2**62, 2**64 - 1, 2**32 - 1, Kind.OPEN, 255, 254, 0),
        (0, 0, 0, 0, 0, 0, 0, 0),
        (9, 4711, 8, 1, Kind.THREAD, 0, 0, 0),
        (10, 10, 0, 2, Kind.INSTANT, 0, 0, 9),
    ]
    table = columns.slots(b"".join(fmt.SLOT.pack(*slot) for slot in slots))
    assert table.schema == SLOTS
    threads = [NO_THREAD, 7, 7, 7, 8, 8]
    assert table.rows() == [(*slot[:7], thread) for slot, thread in zip(slots, threads, strict=True)]
    assert columns.slots(b"").schema == SLOTS


def test_nesting_by_hand(columns):
    """A span that crosses its neighbour is one deeper while both run, and what begins together is sorted by length."""
    rows = [(0, 10, 20), (0, 0, 100), (0, 15, 30), (0, 25, 26), (0, 0, 40), (0, 40, 40), (1, 5, 6), (0, 40, 41)]
    nested = columns.nest(*spans(rows))
    assert nested.schema == {"row": pl.UInt32, "depth": pl.UInt16, "parent": pl.UInt32}
    assert nested.rows() == [
        (1, 0, None),
        (4, 1, 0),
        (0, 2, 1),
        (2, 3, 2),
        (3, 3, 2),
        (7, 1, 0),
        (5, 2, 5),
        (6, 0, None),
    ]
    assert columns.nest(*spans([])).height == 0


def test_both_nest_alike():
    generator = random.Random(11)
    for count in (1, 2, 50, 700):
        drawing = spans(drawn(generator, count))
        native, plain = (columns.nest(*drawing) for columns in BOTH)
        assert_frame_equal(native, plain)
        ordered = [column.gather(native["row"]) for column in drawing]
        taken = pl.Series([generator.random() < 0.7 for _ in range(count)])
        assert_series_equal(*(columns.inside(native["parent"], *ordered[1:], taken) for columns in BOTH))


def test_what_is_inside_counts_up_to_the_end_of_what_it_stands_in(columns):
    parent = pl.Series([None, 0, 0, 2], dtype=pl.UInt32)
    starts, ends = pl.Series([0, 10, 50, 60], dtype=pl.Int64), pl.Series([100, 30, 120, 70], dtype=pl.Int64)
    inside = columns.inside(parent, starts, ends, pl.Series([True, True, True, True]))
    assert inside.to_list() == [20 + 50, 0, 10, 0]
    assert columns.inside(parent, starts, ends, pl.Series([True, False, True, True])).to_list() == [50, 0, 10, 0]


def test_rows_by_hand(columns):
    index = pl.Series([0, 1, None, 2], dtype=pl.UInt8)
    times = pl.Series([1_760_000_000_123_456_789, 5, None, -1_001], dtype=pl.Int64)
    numbers = pl.Series([0, -12, 2**63 - 1, None], dtype=pl.Int64)
    parts = ["<", Texts(["one", "zwölf", None]).at(index), " ", Microseconds(times), " ", Integer(numbers), ">\n"]
    text = columns.rows(4, parts).decode()
    assert text.splitlines() == [
        "<one 1760000000123456.789 0>",
        "<zwölf 0.005 -12>",
        "<  9223372036854775807>",
        "< -1.001 >",
    ]
    assert columns.rows(2, ["a"]) == b"aa"


def test_both_write_alike_also_from_the_middle_of_a_table():
    generator = random.Random(5)
    texts = Texts("x" * generator.randrange(40) for _ in range(30))
    table = pl.DataFrame(
        {
            "index": pl.Series(
                [generator.choice((None, generator.randrange(30))) for _ in range(5000)], dtype=pl.UInt32
            ),
            "number": [generator.choice((None, generator.randrange(-(10**18), 10**18))) for _ in range(5000)],
        }
    )
    pieces = pl.concat([table.slice(3, 1700), table.slice(2001, 2500)], rechunk=False)
    parts = [Choice(texts, pieces["index"]), ";", Microseconds(pieces["number"]), Integer(pieces["number"]), "\n"]
    native, plain = (columns.rows(pieces.height, parts) for columns in BOTH)
    assert native == plain
    assert native.count(b"\n") == 4200


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one: _columns.rows(2, [([], one)]), "a column of type l"),
        (lambda one: _columns.rows(2, [(None, one)]), "a column of 1 rows, not 2"),
        (lambda one: _columns.rows(2, [()]), "a part is bytes or a pair"),
        (lambda one: _columns.nest(one), "3 columns are needed, not 1"),
        (lambda one: _columns.slots("text"), "expected bytes"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(pl.Series([1], dtype=pl.Int64).__arrow_c_stream__())


def test_rows_go_to_a_file_in_order_with_what_is_written_otherwise(columns, tmp_path):
    table = pl.DataFrame({"number": range(100_000)})
    with open(tmp_path / "rows", "wb") as stream:
        stream.write(b"head\n")
        columns.write_rows(stream, table.height, ["row ", Integer(table["number"]), "\n"])
        stream.write(b"tail\n")
    lines = (tmp_path / "rows").read_text().splitlines()
    assert lines == ["head", *(f"row {number}" for number in range(100_000)), "tail"]
    memory = io.BytesIO()
    columns.write_rows(memory, 2, ["x"])
    assert memory.getvalue() == b"xx"


def test_a_full_disk_is_told(columns):
    with open("/dev/full", "wb", buffering=0) as stream, pytest.raises(OSError) as failed:
        columns.write_rows(stream, 100_000, ["some text\n"])
    assert failed.value.errno == errno.ENOSPC
