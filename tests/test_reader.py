import json

import pytest
import store_builder as builder
from ms_profiler.store import format as fmt, layout
from ms_profiler.store.format import Category, Kind
from ms_profiler.store.reader import ReadCounts, read_process, read_segment
from store_builder import MS, RAW_NS, StoreBuilder


@pytest.fixture
def store(tmp_path):
    """Return the store of a process with one thread and two spans."""
    store = StoreBuilder(tmp_path)
    process = store.process()
    thread = process.thread()
    thread.span("first", Category.DATA, 0, MS)
    thread.span("second", Category.FORWARD, MS, 2 * MS)
    return store


def segment_of(store, index=1):
    store.write()
    return store.segment_path(store.processes[0], index)


def read(path):
    counts = ReadCounts()
    return read_segment(str(path), counts), counts


def folder_of(store):
    return layout.process_dirs(str(store.write()))[0]


def test_segment_ends_with_its_last_committed_slot(store):
    segment, counts = read(segment_of(store))
    assert len(segment.slots) == 3 * fmt.SLOT_SIZE
    assert not segment.control and segment.pid == 4242
    assert not counts.damaged


def test_slot_being_written_at_the_end_is_no_damage(store):
    store.processes[0].segments[1].slots += fmt.SLOT.pack(RAW_NS, 0, 7, 3, 0, 0, 0, 0)
    segment, counts = read(segment_of(store))
    assert len(segment.slots) == 3 * fmt.SLOT_SIZE
    assert not counts.damaged


def test_partial_slot_at_the_end_of_a_file_is_counted(store):
    path = segment_of(store)
    content = path.read_bytes()[: fmt.HEADER_SIZE + 2 * fmt.SLOT_SIZE + 20]
    path.write_bytes(content)
    segment, counts = read(path)
    assert len(segment.slots) == 2 * fmt.SLOT_SIZE
    assert counts.cut == 1 and counts.damaged


@pytest.mark.parametrize("content", [b"", bytes(4096), bytes(8) + b"\1\0\0\0" + bytes(4000)])
def test_segment_that_was_never_written_loses_nothing(store, content):
    path = segment_of(store)
    path.write_bytes(content)
    segment, counts = read(path)
    assert segment is None
    assert counts.empty_files == 1 and not counts.damaged


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"magic": int.from_bytes(fmt.MAGIC.to_bytes(8, "little"), "big")}, "byte order"),
        ({"magic": 12345}, "not a segment"),
        ({"version": 99}, "version 99"),
    ],
)
def test_foreign_file_is_named_with_its_reason(tmp_path, options, reason):
    store = StoreBuilder(tmp_path)
    process = store.process()
    process.new_segment(**options).add(Kind.SPAN, 1, 2)
    segment, counts = read(segment_of(store))
    assert segment is None
    ((name, why),) = counts.damaged_files
    assert name == "process_4242/000001.seg" and reason in why


def test_file_shorter_than_a_header_is_named(store):
    path = segment_of(store)
    path.write_bytes(path.read_bytes()[:100])
    assert read(path)[1].damaged_files[0][1].startswith("100 bytes")


def test_header_that_contradicts_itself_is_named(store):
    path = segment_of(store)
    content = bytearray(path.read_bytes())
    content[16:20] = (64).to_bytes(4, "little")
    path.write_bytes(content)
    assert "slot 64" in read(path)[1].damaged_files[0][1]


def test_control_stream_gives_strings_and_anchors(store):
    process = store.processes[0]
    texts = ["x" * 31, "y" * 32, "z" * 33, "größer als ein Byte", "a" * fmt.STRING_MAX]
    ids = [process.string(text) for text in texts]
    process.anchor(5 * MS, half_width=77)
    counts = ReadCounts()
    read_back = read_process(folder_of(store), counts)
    assert [read_back.strings[number] for number in ids] == texts
    assert [anchor.half_width_ns for anchor in read_back.anchors] == [100, 77]
    assert read_back.last_ns == RAW_NS + 5 * MS
    assert not counts.damaged


def test_control_stream_continues_in_further_segments(store):
    process = store.processes[0]
    process.control = process.new_segment(control=True, capacity=64)
    number = process.string("said later")
    process.segments[0].dropped, process.segments[0].dropped_limit = 9, 4
    read_back = read_process(folder_of(store), ReadCounts())
    assert read_back.strings[number] == "said later"
    assert (read_back.dropped, read_back.dropped_limit) == (9, 4)


def test_string_half_written_when_the_process_died_is_no_damage(store):
    control = store.processes[0].control
    control.add(0)
    control.slots += b"payload before its head, longer than a slot".ljust(64, b"\0")
    counts = ReadCounts()
    read_process(folder_of(store), counts)
    assert not counts.damaged


def test_torn_string_is_counted_and_later_ones_are_read(store):
    process = store.processes[0]
    process.control.add(0)
    process.control.slots += b"payload of a torn string, forty bytes..".ljust(64, b"\0")
    number = process.string("later")
    counts = ReadCounts()
    assert read_process(folder_of(store), counts).strings[number] == "later"
    assert counts.torn >= 1 and counts.damaged


def test_string_cut_off_by_the_end_of_the_file_is_counted(store):
    process = store.processes[0]
    process.control.capacity = 0
    process.string("w" * 100)
    path = segment_of(store, 0)
    path.write_bytes(path.read_bytes()[: -2 * fmt.SLOT_SIZE])
    counts = ReadCounts()
    read_process(layout.process_dirs(str(store.path))[0], counts)
    assert counts.cut == 1


@pytest.mark.parametrize(
    "content",
    [{"pid": "x"}, {"pid": -1}, {"pid": 1 << 32}, {"ended_ns": None}, {"daemons": ["x"]}, {"missing": [7]}, [1]],
)
def test_record_with_values_of_other_types_is_damage(store, content):
    store.write()
    folder = layout.process_dirs(str(store.path))[0]
    with open(f"{folder}/{layout.PROCESS_INFO}", "w") as stream:
        json.dump(content, stream)
    counts = ReadCounts()
    found = read_process(folder, counts)
    assert not found.has_info and counts.damaged_files


def test_string_that_says_to_be_larger_than_memory_is_counted(store):
    store.processes[0].control.add(Kind.STRING, RAW_NS, 0, (1 << 63) - 1, 900, extra=1)
    store.processes[0].control.slots += bytes(fmt.SLOT_SIZE)
    store.write()
    counts = ReadCounts()
    read_process(layout.process_dirs(str(store.path))[0], counts)
    assert counts.cut == 1


def test_invalid_utf8_is_replaced(store):
    process = store.processes[0]
    process.control.add(Kind.STRING, RAW_NS, 0, 3, 900, extra=1)
    process.control.slots += b"a\xffb".ljust(32, b"\0")
    assert read_process(folder_of(store), ReadCounts()).strings[900] == "a\ufffdb"


def test_process_without_any_readable_segment_is_left_out(store):
    folder = folder_of(store)
    for path in layout.segment_paths(folder):
        open(path, "wb").close()
    counts = ReadCounts()
    assert read_process(folder, counts) is None
    assert counts.empty_files == 2


@pytest.mark.parametrize("content", [None, "", "[1]", '{"pid": ', "{}"])
def test_process_without_its_record_keeps_its_pid(store, content):
    folder = folder_of(store)
    record = f"{folder}/{layout.PROCESS_INFO}"
    if content is None:
        builder.os.unlink(record)
    else:
        with open(record, "w") as stream:
            stream.write(content)
    counts = ReadCounts()
    read_back = read_process(folder, counts)
    assert read_back.pid == 4242
    assert read_back.has_info == (content == "{}")
    assert counts.damaged == (content != "{}")


def test_description_names_every_reason():
    counts = ReadCounts(torn=1, cut=2, unknown=3, backwards=4, missing_strings=5, damaged_files=[("f", "why")])
    text = counts.describe()
    assert all(f"{number} " in text for number in range(1, 6)) and "f: why" in text
    assert ReadCounts().describe() == ""
