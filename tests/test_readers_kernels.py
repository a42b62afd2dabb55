import random

import polars as pl
import pytest
from ms_profiler.analysis.readers import kernel_windows, store as readers_store
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import BACKWARD, FORWARD, MS, UPDATE, WALL_NS, StoreBuilder, compiled

TIMES = "cpu_op_execute_timestamp_0.txt"
SHAPES = "cpu_framework_0.txt"


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path)


def recorded(store, executions=(), **options):
    """Write a run of one second whose kernels `executions` are in one window; return the builder of its process."""
    process = store.process()
    thread = process.thread()
    thread.span("graph", Category.GRAPH, 0, 1000 * MS)
    thread.window(0, 0, 1000 * MS, executions, **options)
    process.anchor(1000 * MS)
    return process


def read(store):
    """Return (name, start in the run, duration, lane) of each kernel in window 0, and the reader's counts."""
    recording = readers_store.read(str(store.write()))
    names = {}
    table = kernel_windows.read(recording.windows[0], names, recording.clock, recording.counts)
    known = list(names)
    rows = [
        (known[kernel], start - WALL_NS, duration, lane)
        for kernel, lane, start, duration in table.select("kernel", "lane", "start_ns", "duration_ns").iter_rows()
    ]
    return rows, recording.counts


def shapes(store):
    """Return the shapes of each kernel in window 0 in the order of starts; None if they are unknown."""
    recording = readers_store.read(str(store.write()))
    names, texts = {}, {}
    table = kernel_windows.read(recording.windows[0], names, recording.clock, recording.counts)
    found = kernel_windows.shapes(recording.windows[0], table, list(names), texts)
    return pl.Series(list(texts), dtype=pl.String).gather(found).to_list()


def test_every_execution_comes_back_to_the_nanosecond(store):
    generator = random.Random(5)
    # a duration of up to six digits is exact; the recorder writes longer ones rounded to six digits
    expected = sorted(
        (generator.randrange(900 * MS), f"Default/x-Net/Mul-op{generator.randrange(9)}", generator.randrange(10**6))
        for _ in range(2000)
    )
    recorded(store, [(name, start, duration, "") for start, name, duration in expected])
    rows, counts = read(store)
    assert sorted((start, name, duration) for name, start, duration, _ in rows) == expected
    assert [start for _, start, _, _ in rows] == sorted(start for _, start, _, _ in rows)
    assert not counts.damaged and counts.describe() == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.003328", 3328),
        ("12.3922", 12_392_200),
        ("1e-05", 10),
        ("0", 0),
        ("5.731", 5_731_000),
        ("1.23457e+06", 1_234_570_000_000),
        ("0.0456789", 45_679),
    ],
)
def test_durations_are_whole_nanoseconds(store, text, expected):
    process = recorded(store, [(FORWARD, 5 * MS, 1000, "")])
    process.windows[0][TIMES] = f"{FORWARD};HostCpuOps;{WALL_NS + 5 * MS},{text},3 \n"
    assert read(store)[0] == [(FORWARD, 5 * MS, expected, 3)]


@pytest.mark.parametrize(
    ("damage", "kept", "lost"),
    [
        # the end of the file is missing: within a number, after a number, within a name, at the end of a line
        (lambda text: text[: text.rfind(",0 ")], 3, 1),
        (lambda text: text[: text.rfind(" \n")], 3, 1),
        (lambda text: text + "Default/Mu", 4, 1),
        (lambda text: text.replace(" \n", "\n", 1), 3, 1),
        # values that are not numbers, too few values, or impossible values
        (lambda text: text.replace(",0 ", ",x ", 1), 3, 1),
        (lambda text: text.replace("0.001,", "fast,", 1), 3, 1),
        (lambda text: text.replace(",0.001,0 ", " ", 1), 3, 1),
        (lambda text: text.replace(f"{WALL_NS + MS},", "17,", 1), 3, 1),
        (lambda text: text.replace(f"{WALL_NS + MS},", f"-{WALL_NS},", 1), 3, 1),
        (lambda text: text.replace("0.001,", "nan,", 1), 3, 1),
        (lambda text: text.replace("0.001,", "-1,", 1), 3, 1),
        (lambda text: text.replace("HostCpuOps", "HostCp", 1), 2, 1),
        # additional spaces do no harm
        (lambda text: text.replace(",0 ", ",0   ", 1).replace("Ops;", "Ops; "), 4, 0),
        (lambda text: text + "\n\n", 4, 0),
        (lambda text: "", 0, 0),
    ],
)
def test_damaged_kernels_are_left_out_and_counted(store, damage, kept, lost):
    executions = [
        (name, start * MS, 1000, "") for name, start in ((FORWARD, 1), (FORWARD, 2), (UPDATE, 3), (UPDATE, 4))
    ]
    process = recorded(store, executions)
    process.windows[0][TIMES] = damage(process.windows[0][TIMES])
    # the mark of the drain does not have the number of kernels
    process.segments[1].slots[-16:-8] = bytes(8)
    rows, counts = read(store)
    assert (len(rows), counts.damaged_kernels) == (kept, lost)
    assert all(duration == 1000 for _, _, duration, _ in rows)
    assert ("kernels that cannot be read" in counts.describe()) == bool(lost)


def test_bytes_that_are_no_text(store):
    process = recorded(store, [(FORWARD, MS, 1000, ""), (UPDATE, 2 * MS, 1000, ""), (UPDATE, 3 * MS, 1000, "")])
    path = store.write() / layout.FRAMEWORK / f"process_{process.pid}" / layout.KERNELS / "000000" / TIMES
    content = path.read_bytes().replace(b"MatMul", b"Mat\xff\x00ul").replace(b"0.001", b"0.0\xfe1", 1)
    path.write_bytes(content)
    recording = readers_store.read(str(store.path))
    names = {}
    table = kernel_windows.read(recording.windows[0], names, recording.clock, recording.counts)
    assert (table.height, recording.counts.damaged_kernels) == (2, 1)
    assert list(names) == [FORWARD.replace("MatMul", "Mat\ufffd\x00ul"), UPDATE]


def test_kernels_that_the_job_counted_and_the_files_have_no_more_are_counted(store):
    process = recorded(store, [(FORWARD, start * MS, 1000, "") for start in range(1, 11)])
    lines = process.windows[0][TIMES]
    process.windows[0][TIMES] = lines[: len(lines) // 2].rpartition(" ")[0] + " \n"
    rows, counts = read(store)
    assert 0 < len(rows) < 10 and len(rows) + counts.damaged_kernels == 10


def test_the_rank_in_the_name_of_a_file_does_not_matter(store):
    process = recorded(store, [(FORWARD, MS, 1000, "input_1:[2];")])
    files = process.windows[0]
    process.windows[0] = {name.replace("_0.", "_13."): content for name, content in files.items()}
    assert len(read(store)[0]) == 1 and shapes(store) == ["2"]


@pytest.mark.parametrize("jump", [3600 * 10**9, -3600 * 10**9])
def test_kernels_are_on_the_time_line_after_the_wall_clock_was_set(store, jump):
    process = store.process()
    thread = process.thread()
    thread.window(0, 0, 10_000 * MS, [(FORWARD, 2000 * MS, MS, "")])
    thread.window(1, 11_000 * MS, 20_000 * MS, [(FORWARD, 15_000 * MS, MS, "")], jump=jump)
    for second in range(1, 20):
        process.anchor(second * 1000 * MS, offset=jump if second >= 11 else 0)
    recording = readers_store.read(str(store.write()))
    starts = [
        kernel_windows.read(window, {}, recording.clock, recording.counts)["start_ns"][0]
        for window in recording.windows
    ]
    assert starts == [WALL_NS + 2000 * MS, WALL_NS + 15_000 * MS]
    assert recording.counts.damaged_kernels == 0


def test_shapes_go_by_name_and_order(store):
    one, two = "Default/a-Net/fc-Dense/MatMul-op0", "Gradients/Default/b-Net/MatMul-op0"
    recorded(
        store,
        [
            (two, 3 * MS, 1000, "input_1:[3, 3];input_2:[];input_3:NoShape;"),
            (one, 1 * MS, 1000, "input_1:[1, 1];"),
            (two, 2 * MS, 1000, "input_1:TupleShape([2, 2], [4]);input_2:[-1, 5];"),
            ("Mul", 4 * MS, 1000, "input_1:[9];"),
            (UPDATE, 5 * MS, 1000, ""),
        ],
    )
    assert shapes(store) == ["1,1", "TupleShape([2,2],[4]);-1,5", "3,3;;", None, ""]


def test_shapes_that_could_be_those_of_another_kernel_are_not_known(store):
    one, two = "Default/a-Net/MatMul-op0", "Default/b-Net/MatMul-op0"
    process = recorded(
        store,
        [
            # these two kernels ran at the same time, so it is unknown whose shapes were written first
            (one, 1 * MS, MS, "input_1:[1];"),
            (two, 1 * MS + 500, MS, "input_1:[2];", 1),
            (UPDATE, 5 * MS, 1000, "input_1:[5];"),
            (FORWARD, 6 * MS, 1000, "input_1:[6];"),
            (FORWARD, 7 * MS, 1000, "input_1:[7];"),
        ],
    )
    assert shapes(store) == [None, None, "5", None, None]
    # the file has shapes of one more kernel than ran
    process.windows[0][SHAPES] += "ApplyMomentum;ApplyMomentum-op0;1;input_1:[8];\n"
    assert shapes(store) == [None, None, None, None, None]


@pytest.mark.parametrize("cut", [-1, -3, -12])
def test_shapes_of_a_line_that_was_cut_are_not_used(store, cut):
    process = recorded(store, [(FORWARD, MS, 1000, "input_1:[4, 8];"), (UPDATE, 2 * MS, 1000, "input_1:[16, 32];")])
    process.windows[0][SHAPES] = process.windows[0][SHAPES][:cut]
    assert shapes(store) == ["4,8", None]


def test_windows_are_those_that_were_marked_or_left_files(store):
    process = store.process()
    thread = process.thread()
    thread.window(0, 5 * MS, 10 * MS, [(FORWARD, 6 * MS, 1000, "")])
    thread.window(1, 11 * MS, None, [])
    thread.window(2, 20 * MS, 30 * MS, [(FORWARD, 21 * MS, 1000, ""), (UPDATE, 22 * MS, 1000, "")])
    process.windows[3] = {TIMES: f"{FORWARD};HostCpuOps;{WALL_NS + 6 * MS},0.001,0 \n"}
    process.anchor(50 * MS)
    path = store.write()
    (path / layout.FRAMEWORK / f"process_{process.pid}" / layout.KERNELS / "not a window").mkdir()
    found = readers_store.read(str(path)).windows
    assert [(window.index, window.ended, window.drained) for window in found] == [
        (3, False, None),
        (0, True, 1),
        (1, False, None),
        (2, True, 2),
    ]
    assert [(window.start_ns - WALL_NS, window.end_ns - WALL_NS) for window in found] == [
        (0, 50 * MS),
        (5 * MS, 10 * MS),
        (11 * MS, 20 * MS),
        (20 * MS, 30 * MS),
    ]


def test_sums_by_type_are_those_of_the_framework_to_its_printed_precision(tmp_path):
    generator = random.Random(9)
    store = StoreBuilder(tmp_path)
    durations = [generator.randrange(10**3, 10**8) for _ in range(500)]
    recorded(store, [(FORWARD, number * MS, duration, "") for number, duration in enumerate(durations)])
    total = sum(duration for _, _, duration, _ in read(store)[0])
    # each duration and their sum have six significant digits
    assert f"{total / 1e6:.5g}" == f"{sum(durations) / 1e6:.5g}"


def test_run_without_a_stream_has_no_window(store):
    store.process().thread().span("forward", Category.FORWARD, 0, MS)
    assert readers_store.read(str(store.write())).windows == []


def test_names_of_a_training_run(tmp_path):
    recording = readers_store.read(str(compiled(tmp_path).write()))
    names = {}
    heights = [
        kernel_windows.read(window, names, recording.clock, recording.counts).height for window in recording.windows
    ]
    assert heights == [30, 30] and set(names) == {FORWARD, BACKWARD, UPDATE}
    assert all(kernel_windows.written(window) and kernel_windows.size(window) > 0 for window in recording.windows)
