"""The extension and Polars have the same results for all work on columns."""

import errno
import io
import random
import subprocess
import sys

import polars as pl
import pytest
from column_kinds import BOTH, packed, wanted
from conftest import ROOT, environment
from ms_profiler import _columns
from ms_profiler.analysis.columns import COLUMNS, Choice, Integer, Microseconds, Texts, slots as slots_module
from ms_profiler.analysis.columns.protocol import SUMS
from ms_profiler.analysis.columns.slots import DECODED, NO_THREAD, SLOTS
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.store.format import Category, Kind
from polars.testing import assert_frame_equal, assert_series_equal


def spans(rows):
    lanes, starts, ends = zip(*rows, strict=True) if rows else ((), (), ())
    return pl.Series(lanes, dtype=pl.UInt64), pl.Series(starts, dtype=pl.Int64), pl.Series(ends, dtype=pl.Int64)


def drawn(generator, count):
    """Return random spans (lane, start, end), some of which nest, cross, touch, take no time, or begin together."""
    starts = [generator.randrange(3 * count) for _ in range(count)]
    return [(generator.choice((0, 1, 2**40)), start, start + generator.randrange(60)) for start in starts]


def test_the_extension_is_used_where_it_can_be_loaded():
    program = "import sys{}; from ms_profiler.analysis.columns import COLUMNS; print(COLUMNS.kind)"
    for without, kind in (("", "native"), ("; sys.modules['ms_profiler._columns'] = None", "plain")):
        command = [sys.executable, "-c", program.format(without)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
        assert done.stdout.split() == [kind]
    assert COLUMNS.kind == "native"


FINE, OPERATOR, COARSE = int(Category.MODULE), int(Category.OP), int(Category.FORWARD)
HEAD = (9, 4711, 7, 1, Kind.THREAD, 0, 0, 0)


def test_spans_by_hand(columns):
    """The columns lack records that are not spans or end before they start.

    A thread record names the thread of the spans behind it.
    """
    first = packed(
        (10, 30, 3, 1, Kind.SPAN, FINE, 6, 0),
        HEAD,
        (20, 0, 2**64 - 1, 9, Kind.OPEN, COARSE, 254, 0),
        (0, 0, 0, 0, 0, 0, 0, 0),
        (25, 24, 0, 1, Kind.SPAN, FINE, 0, 0),
        (9, 4711, 8, 1, Kind.THREAD, 0, 0, 0),
        (26, 26, 0, 2, Kind.INSTANT, 0, 0, 9),
        (40, 40, 0, 2, Kind.SPAN, 255, 0, 0),
    )
    table = columns.spans([first, b"", packed((50, 60, 0, 0, Kind.SPAN, FINE, 0, 0))], wanted())
    assert table.schema == DECODED
    assert table.rows() == [
        (NO_THREAD, 7, FINE, 6, False, 1010, 1030, 3),
        (7, 1, COARSE, 254, True, 1020, 1900, 2**64 - 1),
        (8, 5, 255, 0, False, 1040, 1040, 0),
        (NO_THREAD, 0, FINE, 0, False, 1050, 1060, 0),
    ]
    assert columns.spans([first], wanted(fine=True))["start_ns"].to_list() == [1010, 1040]
    assert columns.spans([first], wanted(between=(1020, 1040)))["start_ns"].to_list() == [1020]
    assert columns.spans([], wanted()).schema == DECODED


def test_spans_are_cut_to_the_window(columns):
    slots = packed(
        (10, 30, 0, 1, Kind.SPAN, FINE, 0, 0),
        (20, 50, 0, 1, Kind.SPAN, FINE, 0, 0),
        (25, 0, 0, 1, Kind.OPEN, FINE, 0, 0),
        (40, 41, 0, 1, Kind.SPAN, FINE, 0, 0),
    )
    found = columns.spans([slots], wanted(window=(20, 40), last_ns=40))
    assert found.select("start_ns", "end_ns").rows() == [(1020, 1040), (1025, 1040)]
    part = columns.coarse([slots], wanted(window=(20, 40)), 1)
    assert part.starts.to_list() == [20, 25]
    assert part.table["start_ns"].to_list() == [10, 40]
    assert columns.spans([slots], wanted(window=(20, 0)))["start_ns"].to_list() == [1020, 1025, 1040]


def test_coarse_slots_by_hand(columns):
    first = packed(
        HEAD,
        (20, 30, 3, 1, Kind.SPAN, FINE, 6, 0),
        (21, 29, 3, 99, Kind.SPAN, FINE, 6, 0),
        (22, 0, 3, 2, Kind.OPEN, FINE, 6, 0),
        (23, 22, 3, 1, Kind.SPAN, FINE, 6, 0),
        (24, 90, 3, 1, Kind.SPAN, COARSE, 6, 0),
        (26, 26, 0, 2, Kind.INSTANT, FINE, 0, 9),
        (0, 0, 0, 0, 0, 0, 0, 0),
        (8, 10, 0, 1, Kind.SPAN, FINE, 0, 0),
    )
    second = packed((24, 90, 3, 1, Kind.SPAN, COARSE, 6, 0))
    part = columns.coarse([first, second], wanted(), 2)
    assert part.table.schema == SLOTS
    assert part.table["start_ns"].to_list() == [9, 23, 24, 26, 0, 24]
    assert part.table.row(2) == (24, 90, 3, 1, Kind.SPAN, COARSE, 6, 7)
    assert part.table["thread"].to_list() == [7, 7, 7, 7, 7, NO_THREAD]
    assert part.fine.schema == slots_module.FINE
    assert part.fine.rows() == [(4, 1, 8, 22, 30, 7), (0, 0, 2**63 - 1, -(2**63), -(2**63), NO_THREAD)]
    assert part.starts.to_list() == [20, 22]


def test_both_convert_times_as_the_clock_does():
    """The times lie between the knots of the clock, before the first knot and after the last one."""
    generator = random.Random(3)
    knots = ((10**15, 5 * 10**17), (10**15 + 10**9, 5 * 10**17 + 20_001), (10**15 + 3 * 10**9, 5 * 10**17 - 7))
    times = [10**15 - 10**8 + generator.randrange(4 * 10**9) for _ in range(2000)]
    slots = packed(*((time, time + 1, 0, 1, Kind.SPAN, FINE, 0, 0) for time in times))
    native, plain = (each.spans([slots], wanted(knots=knots)) for each in BOTH)
    assert_frame_equal(native, plain)
    assert native["start_ns"].to_list() == Clock(knots, 0).epoch(pl.Series(times)).to_list()


def test_calls_by_hand(columns):
    """The input has two crossing modules, one without duration, operators that begin with a module, and two threads."""
    rows = [
        # lane, start, end, category, name
        (0, 0, 100, FINE, 1),
        (0, 10, 60, FINE, 2),
        (0, 50, 120, FINE, 3),  # cut off at 60, where the span around its begin ends
        (0, 5, 5, FINE, 4),
        (0, 21, 22, COARSE, 5),
        (0, 10, 70, OPERATOR, 9),  # longer than the module that begins at the same time
        (0, 20, 30, OPERATOR, 9),
        (0, 55, 56, OPERATOR, 9),
        (0, 90, 130, OPERATOR, 9),
        (0, 130, 130, OPERATOR, 9),
        (0, 130, 131, OPERATOR, 9),
        (1, 5, 6, OPERATOR, 9),
    ]
    lanes, starts, ends, categories, names = map(list, zip(*rows, strict=True))
    found = columns.calls(
        pl.Series(lanes, dtype=pl.UInt64),
        pl.Series(starts),
        pl.Series(ends),
        pl.Series(categories, dtype=pl.UInt8),
        pl.Series(names, dtype=pl.UInt32),
    )
    assert found.schema == {"module": pl.UInt32, "inner": pl.Boolean}
    assert found.rows()[5:] == [
        (2, False),
        (2, True),
        (3, True),
        (1, True),
        (None, True),
        (None, False),
        (None, True),
    ]


def test_both_know_the_same_of_operators():
    generator = random.Random(8)
    for count in (0, 1, 60, 900):
        lane, start, end = spans(drawn(generator, count))
        kinds = pl.Series([generator.choice((FINE, OPERATOR, OPERATOR, COARSE)) for _ in range(count)], dtype=pl.UInt8)
        names = pl.Series([generator.randrange(9) for _ in range(count)], dtype=pl.UInt32)
        native, plain = (each.calls(lane, start, end, kinds, names).filter(kinds == OPERATOR) for each in BOTH)
        assert_frame_equal(native, plain)


def test_sums_by_hand(columns):
    """A counted span's self time lacks the spans inside it, even if those come later in the table."""
    rows = [
        (0, 0, 100, 1, True),
        (0, 10, 40, 2, False),
        (0, 20, 30, 1, False),
        (0, 90, 120, 2, False),
        (1, 0, 9, 3, True),
    ]
    lanes, starts, ends, keys, counted = map(list, zip(*rows, strict=True))
    sums, still = columns.sums(
        pl.Series(lanes, dtype=pl.UInt64),
        pl.Series(starts),
        pl.Series(ends),
        pl.Series(keys, dtype=pl.UInt64),
        pl.Series(counted),
    )
    assert sums.schema == SUMS
    assert sums.sort("key").rows() == [
        (1, 1, 10, 10 - 30 - 10, 10, 10, 100),
        (2, 2, 60, 60 - 10, 30, 30, 1800),
        (3, 0, 0, 0, None, None, 0),
    ]
    assert still.to_list() == [True, False, False, True, True]


def test_both_sum_up_alike_also_squares_of_hours():
    generator = random.Random(4)
    for count in (0, 1, 50, 3000):
        lane, start, end = spans(drawn(generator, count))
        end = end + pl.Series([generator.choice((0, 0, 4 * 3600 * 10**9)) for _ in range(count)], dtype=pl.Int64)
        # Some keys are names of operators. A span whose only content is a span of the same name counts once with it.
        key = pl.Series(
            [generator.choice((0x41, 0x141, generator.randrange(600))) for _ in range(count)], dtype=pl.UInt64
        )
        counted = pl.Series([generator.random() < 0.1 for _ in range(count)], dtype=pl.Boolean)
        (native, still), (plain, open_still) = (each.sums(lane, start, end, key, counted) for each in BOTH)
        assert_frame_equal(native.sort("key"), plain.sort("key"))
        assert_series_equal(still, open_still)


def test_nesting_by_hand(columns):
    """If two spans cross, the later one lies one level deeper while both run.

    Spans with the same begin are sorted by length.
    """
    rows = [(0, 10, 20), (0, 0, 100), (0, 15, 30), (0, 25, 26), (0, 0, 40), (0, 40, 40), (1, 5, 6), (0, 40, 41)]
    nested = columns.nest(*spans(rows))
    assert nested.schema == {"row": pl.UInt32, "depth": pl.UInt16, "parent": pl.UInt32}
    assert nested.rows() == [
        (1, 0, None),
        (4, 1, 0),
        (0, 2, 1),
        (2, 3, 2),
        (3, 3, 3),
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
        everything = pl.Series([True] * count)
        inside = BOTH[0].inside(native["parent"], *ordered[1:], everything)
        assert ((inside >= 0) & (inside <= ordered[2] - ordered[1])).all()
        taken = pl.Series([generator.random() < 0.7 for _ in range(count)])
        assert_series_equal(*(columns.inside(native["parent"], *ordered[1:], taken) for columns in BOTH))


def test_time_inside_counts_up_to_the_end_of_the_parent(columns):
    parent = pl.Series([None, 0, 0, 2], dtype=pl.UInt32)
    starts, ends = pl.Series([0, 10, 50, 60], dtype=pl.Int64), pl.Series([100, 30, 120, 70], dtype=pl.Int64)
    inside = columns.inside(parent, starts, ends, pl.Series([True, True, True, True]))
    assert inside.to_list() == [20 + 50, 0, 10, 0]
    assert columns.inside(parent, starts, ends, pl.Series([True, False, True, True])).to_list() == [50, 0, 10, 0]


def test_times_are_located_in_intervals(columns):
    starts, ends = pl.Series([0, 10, 10_000]), pl.Series([5, 20, 10_001])
    times = [-1, 0, 4, 5, 10, 19, 20, None, 10_000, 10_001, 3, 10_000, -5]
    found = columns.locate(pl.Series(times, dtype=pl.Int64), starts, ends)
    assert found.dtype == pl.UInt32
    assert found.to_list() == [None, 0, 0, None, 1, 1, None, None, 2, None, 0, 2, None]
    nothing = pl.Series([], dtype=pl.Int64)
    assert columns.locate(pl.Series([1], dtype=pl.Int64), nothing, nothing).to_list() == [None]
    assert columns.locate(nothing, starts, ends).to_list() == []


def test_both_locate_alike():
    generator = random.Random(2)
    bounds = pl.Series(sorted(generator.sample(range(5000), 600)))
    starts, ends = bounds.gather_every(2), bounds.gather_every(2, 1)
    for times in ([generator.randrange(-9, 5009) for _ in range(3000)], sorted(range(-9, 5009))):
        native, plain = (each.locate(pl.Series(times), starts, ends) for each in BOTH)
        assert_series_equal(native, plain)
        assert 0 < native.null_count() < len(times)


def test_pairs_are_found(columns):
    known = pl.DataFrame({"process": [7, 7, 2**32 - 1, 7], "thread": [1, 2, 2**32 - 1, 2]}).cast(pl.UInt32)
    pairs = pl.DataFrame({"process": [7, 7, 7, 2**32 - 1, 1, 7], "thread": [2, 2, 1, 2**32 - 1, 7, 3]}).cast(pl.UInt32)
    found = columns.find(pairs, known)
    assert found.dtype == pl.UInt32
    assert found.to_list() == [1, 1, 0, 2, None, None]
    assert columns.find(pairs, known.clear()).to_list() == [None] * 6


def test_both_find_alike():
    generator = random.Random(6)
    known = pl.DataFrame({"a": [generator.randrange(50) for _ in range(900)], "b": range(900)}).cast(pl.UInt32)
    drawing = {name: [generator.randrange(most) for _ in range(4000)] for name, most in (("a", 50), ("b", 900))}
    native, plain = (each.find(pl.DataFrame(drawing).cast(pl.UInt32), known) for each in BOTH)
    assert_series_equal(native, plain)
    assert 0 < native.null_count() < 4000


def test_the_latest_of_a_key_is_found(columns):
    known = pl.DataFrame({"key": [5, 9, 5, 5, 2**32 - 1], "time": [10, 11, 20, 20, 30]}).cast({"key": pl.UInt32})
    keys = [(5, 19), (5, 20), (5, 9), (5, 10), (9, 2**62), (7, 99), (2**32 - 1, 30), (2**32 - 1, 29), (5, 11)]
    question = pl.DataFrame(keys, {"key": pl.UInt32, "time": pl.Int64}, orient="row")
    found = columns.latest(question, known)
    assert found.dtype == pl.UInt32
    assert found.to_list() == [0, 3, None, 0, 1, None, 4, None, 0]
    assert columns.latest(question, known.clear()).to_list() == [None] * 9
    assert columns.latest(question.clear(), known).to_list() == []


def test_both_find_the_latest_alike():
    generator = random.Random(7)
    schema = {"key": pl.UInt32, "time": pl.Int64}

    def rows(count):
        drawn = [(generator.randrange(2**32 - 300, 2**32), generator.randrange(9000)) for _ in range(count)]
        return pl.DataFrame(drawn, schema, orient="row")

    known = rows(3000).sort("time", maintain_order=True)
    native, plain = (each.latest(rows_asked, known) for rows_asked in [rows(5000)] for each in BOTH)
    assert_series_equal(native, plain)
    assert 0 < native.null_count() < 2500


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
    # a table of CANN has fifty columns or more
    assert (
        columns.rows(1, [Integer(pl.Series([number])) for number in range(300)])
        == "".join(map(str, range(300))).encode()
    )


def test_both_write_alike_also_from_the_middle_of_a_table():
    generator, wide = random.Random(5), 10**18
    texts = Texts("x" * generator.randrange(80) for _ in range(30))
    table = pl.DataFrame(
        {
            "index": pl.Series(
                [generator.choice((None, generator.randrange(30))) for _ in range(5000)], dtype=pl.UInt32
            ),
            "number": [
                generator.choice((None, generator.randrange(-wide, wide), wide + generator.randrange(3 * 10**9)))
                for _ in range(5000)
            ],
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
        (lambda one: _columns.order(one), "3 columns are needed, not 1"),
        (lambda one: _columns.locate(one), "2 columns are needed, not 0"),
        (lambda one: _columns.find(one, one, one), "a column of type l, not I"),
        (lambda one: _columns.latest(one, one, one, one), "a column of type l, not I"),
        (lambda one: _columns.latest(one), "4 columns are needed, not 1"),
        (lambda one: _columns.devices([]), "takes 2 arguments, not 1"),
        (lambda one: _columns.calls(*[one] * 5), "a column of type l, not L"),
        (lambda one: _columns.coarse([], (), 0), "has to be positive"),
        (lambda one: _columns.spans(["text"], ()), "expected bytes"),
        (lambda one: _columns.spans([], ()), "exactly 6 arguments"),
    ],
)
def test_values_out_of_range_are_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(pl.Series([1], dtype=pl.Int64).__arrow_c_stream__())


def test_rows_go_to_a_file_in_order_with_other_writes(columns, tmp_path):
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


def test_a_full_disk_is_an_error(columns):
    with open("/dev/full", "wb", buffering=0) as stream, pytest.raises(OSError) as failed:
        columns.write_rows(stream, 100_000, ["some text\n"])
    assert failed.value.errno == errno.ENOSPC


def test_the_stress_program_knows_the_columns_that_there_are(tmp_path):
    """`make sanitize` runs the stress program for longer. A few rounds show here that it fits the current columns."""
    native = ROOT / "native"
    sources = [path for path in (native / "columns").glob("*.c") if not path.name.endswith(("module.c", "arrow.c"))]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{native}"]
    program, folder = tmp_path / "columns", tmp_path / "store"
    folder.mkdir()
    command = ["cc", *flags, ROOT / "tests" / "native" / "columns.c", *sources, "-o", program, "-lm"]
    subprocess.run(command, check=True)
    subprocess.run([program, folder, "3", "1"], check=True)
