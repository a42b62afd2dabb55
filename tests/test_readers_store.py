import polars as pl
import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.driver.progress import Progress
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import slot_table as slots, store as readers_store
from ms_profiler.errors import StoreError
from ms_profiler.store import format as fmt, layout
from ms_profiler.store.format import Category, Flag, Kind, StepSource
from store_builder import MS, RAW_NS, WALL_NS, StoreBuilder, training


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path)


def read(store, **options):
    return readers_store.read(str(store.write()), **options)


def named(recording, frame):
    return frame.with_columns(recording.names.gather(frame["name"]))


def test_tables_have_their_schemas(tmp_path):
    recording = read(training(tmp_path))
    for name in ("processes", "threads", "spans", "instants", "counters", "steps"):
        assert getattr(recording, name).schema == getattr(tables, name.upper()), name
    assert recording.spans.height == 20 * 7 + 1
    assert not recording.counts.damaged


def test_times_are_exact_and_since_the_epoch(store):
    thread = store.process().thread()
    thread.span("odd", Category.DATA, 123_456_789, 987_654_321, arg=2**64 - 1)
    row = read(store).spans.row(0, named=True)
    assert (row["start_ns"], row["end_ns"]) == (WALL_NS + 123_456_789, WALL_NS + 987_654_321)
    assert row["arg"] == 2**64 - 1


def test_a_thread_slot_changes_the_thread_of_later_records(store):
    process = store.process()
    thread = process.thread(1, "MainThread", 4242)
    thread.span("main", Category.DATA, 0, MS)
    other = process.string("worker")
    thread.segment.add(Kind.THREAD, RAW_NS + MS, 4300, 2, other)
    thread.span("taken over", Category.DATA, 2 * MS, 3 * MS)
    recording = read(store)
    spans = named(recording, recording.spans)
    assert dict(spans.select("name", "thread").iter_rows()) == {"main": 1, "taken over": 2}
    assert recording.threads.rows() == [(4242, 1, 4242, "MainThread"), (4242, 2, 4300, "worker")]


def test_segment_that_lost_its_head_belongs_to_no_known_thread(store):
    process = store.process()
    thread = process.thread()
    thread.span("known", Category.DATA, 0, MS)
    process.new_segment().add(Kind.SPAN, RAW_NS + MS, RAW_NS + 2 * MS, 0, process.string("lost"), Category.DATA)
    recording = read(store)
    spans = named(recording, recording.spans)
    assert dict(spans.select("name", "thread").iter_rows()) == {"known": 1, "lost": tables.UNKNOWN_THREAD}


def test_many_segments_are_read_in_batches(store, monkeypatch):
    monkeypatch.setattr(slots, "BATCH", 1000)
    process = store.process()
    thread = process.thread()
    for number in range(50):
        thread.new_segment()
        for part in range(7):
            thread.span(f"s{number}", Category.DATA, (number * 10 + part) * MS, (number * 10 + part + 1) * MS)
    seen = []
    recording = read(store, progress=Progress("", lambda _, share, total: seen.append((share, total))))
    assert recording.spans.height == 350
    assert recording.spans["thread"].unique().to_list() == [1]
    shares = [share for share, _ in seen]
    assert len(seen) > 10 and shares == sorted(shares) and 0 < shares[0] < shares[-1]
    assert min(total for _, total in seen) > 350


def test_open_span_reaches_to_the_last_sign_of_life(store):
    process = store.process(state="running", end="")
    thread = process.thread()
    thread.open("hangs", Category.COMPILE, MS)
    thread.span("last", Category.DATA, 2 * MS, 7 * MS)
    recording = read(store)
    spans = named(recording, recording.spans)
    assert spans.filter("unfinished").select("name", "end_ns").row(0) == ("hangs", WALL_NS + 7 * MS)
    assert recording.spans["unfinished"].sum() == 1
    assert recording.processes["last_ns"][0] == WALL_NS + 7 * MS


@pytest.mark.parametrize("sign", ["anchor", "step", "instant", "end"])
def test_every_kind_of_record_is_a_sign_of_life(store, sign):
    process = store.process()
    thread = process.thread()
    thread.open("hangs", Category.COMPILE, MS)
    if sign == "anchor":
        process.anchor(9 * MS)
    elif sign == "step":
        thread.step(0, MS, 9 * MS)
    elif sign == "instant":
        thread.instant("now", Category.MARKER, 9 * MS)
    else:
        process.info.ended_ns = RAW_NS + 9 * MS
    assert read(store).spans["end_ns"][0] == WALL_NS + 9 * MS


def test_instants_and_counters(store):
    thread = store.process().thread()
    thread.instant("mark", Category.MARKER, 3 * MS)
    thread.counter("rss", 4 * MS, 1234.5)
    thread.counter("rss", 5 * MS, -0.25)
    recording = read(store)
    assert named(recording, recording.instants).select("name", "time_ns").rows() == [("mark", WALL_NS + 3 * MS)]
    assert named(recording, recording.counters).select("name", "value").rows() == [("rss", 1234.5), ("rss", -0.25)]


def test_steps_keep_source_and_whether_they_were_recorded(store):
    thread = store.process().thread()
    thread.step(0, 0, MS, flags=Flag.UNRECORDED)
    thread.step(1, MS, 2 * MS, source=StepSource.OPTIMIZER_CYCLE)
    rows = read(store).steps.select("number", "source", "recorded").rows()
    assert rows == [(0, StepSource.SCRIPT, False), (1, StepSource.OPTIMIZER_CYCLE, True)]


def test_processes_share_names_but_not_ids(store):
    first, second = store.process(1000), store.process(1001, role="fork", parent=1000)
    second.string("only to move the ids")
    for process in (first, second):
        process.thread().span("same", Category.DATA, 0, MS)
    recording = read(store)
    assert recording.spans["name"].n_unique() == 1
    assert recording.processes.select("process", "parent", "role").rows() == [(1000, 0, "main"), (1001, 1000, "fork")]


def damage_torn(thread):
    thread.segment.add(0)
    thread.span("after", Category.DATA, 5 * MS, 6 * MS)


def damage_unknown(thread):
    thread.segment.add(200, RAW_NS, RAW_NS + 1)


def damage_misplaced(thread):
    thread.segment.add(Kind.ANCHOR, RAW_NS, WALL_NS)


def damage_backwards(thread):
    thread.span("time machine", Category.DATA, 5 * MS, 4 * MS)


def damage_name(thread):
    thread.span(9999, Category.DATA, 5 * MS, 6 * MS)


@pytest.mark.parametrize(
    ("damage", "reason", "spans"),
    [
        (damage_torn, "torn", 2),
        (damage_unknown, "unknown", 1),
        (damage_misplaced, "unknown", 1),
        (damage_backwards, "backwards", 1),
        (damage_name, "missing_strings", 2),
    ],
)
def test_damage_is_counted_by_reason_and_the_rest_is_used(store, damage, reason, spans):
    thread = store.process().thread()
    thread.span("good", Category.DATA, 0, MS)
    damage(thread)
    recording = read(store)
    assert getattr(recording.counts, reason) == 1
    assert recording.counts.damaged
    others = {"torn", "cut", "unknown", "backwards", "missing_strings"} - {reason}
    assert all(getattr(recording.counts, name) == 0 for name in others)
    assert recording.spans.height == spans
    assert "good" in named(recording, recording.spans)["name"]


def test_span_without_its_name_keeps_its_time(store):
    thread = store.process().thread()
    damage_name(thread)
    recording = read(store)
    assert named(recording, recording.spans).select("name", "end_ns").row(0) == ("(name lost)", WALL_NS + 6 * MS)


def test_drops_are_the_headers_or_the_records_whichever_is_more(store):
    process = store.process(dropped=3, dropped_limit=1)
    process.thread()
    process.control.dropped = 12
    recording = read(store)
    assert recording.processes.select("dropped", "dropped_limit").row(0) == (12, 1)


def test_run_without_a_clock_pair_falls_back_to_its_record(store):
    process = store.process()
    process.control.slots.clear()
    process.thread().span("x", Category.DATA, 0, MS)
    recording = read(store)
    assert abs(recording.spans["start_ns"][0] - WALL_NS) < 1_000_000
    assert recording.clock.uncertainty_ns == 1_000_000


def test_run_without_its_record_is_read(store):
    store.process().thread().span("x", Category.DATA, 0, MS)
    path = store.write()
    (path / layout.FRAMEWORK / layout.RUN_INFO).write_text("{")
    recording = readers_store.read(str(path))
    assert not recording.has_info and recording.spans.height == 1
    assert recording.counts.damaged_files[0][0] == layout.RUN_INFO


@pytest.mark.parametrize("content", [None, b"", b"garbage" * 100])
def test_an_unreadable_store_is_an_error_with_the_reason(store, content):
    process = store.process()
    process.thread()
    path = store.write()
    for segment in process.segments:
        if content is None:
            store.segment_path(process, segment.index).unlink()
        else:
            store.segment_path(process, segment.index).write_bytes(content)
    with pytest.raises(StoreError, match="not a segment" if content else "no segment"):
        readers_store.read(str(path))


def test_a_million_slots_stay_columns(store):
    process = store.process()
    thread = process.thread()
    name = process.string("op")
    slots = b"".join(
        fmt.SLOT.pack(RAW_NS + i * 100, RAW_NS + i * 100 + 50, i, name, Kind.SPAN, Category.OP, 0, 0)
        for i in range(100_000)
    )
    for _ in range(10):
        thread.new_segment()
        thread.segment.slots += slots
    recording = read(store)
    assert recording.spans.height == 1_000_000
    assert recording.spans["arg"].sum() == 10 * sum(range(100_000))
    assert recording.spans.select((pl.col("end_ns") - pl.col("start_ns")).unique()).item() == 50


def test_records_that_begin_while_the_store_is_read_are_left_out(store, monkeypatch):
    """A running job writes further records between the reader's first and second pass over its segments."""
    process = store.process()
    thread = process.thread()
    thread.step(0, 0, 3 * MS)
    thread.span("aten::mm", Category.OP, MS, 2 * MS)
    thread.open("aten::relu", Category.OP, 2 * MS)
    name, whole, later = process.string("aten::add"), readers_store.COLUMNS.coarse, []

    def growing(*arguments):
        found = whole(*arguments)
        if not later:
            later.append(thread.segment)
            thread.segment.add(Kind.SPAN, RAW_NS + 5 * MS, RAW_NS + 6 * MS, 0, name, Category.OP)
            thread.segment.add(Kind.OPEN, RAW_NS + 7 * MS, 0, 0, name, Category.OP)
            store.write()
        return found

    monkeypatch.setattr(type(readers_store.COLUMNS), "coarse", staticmethod(growing))
    recording = read(store)
    assert later
    spans = named(recording, recording.spans)
    assert spans["name"].to_list() == ["aten::mm", "aten::relu"]
    assert (spans["end_ns"] >= spans["start_ns"]).all()


def test_a_path_that_is_no_text_is_read(tmp_path):
    path = tmp_path / "\udcff\udcfe odd\n\x1b"
    path.mkdir()
    (done,) = engine.analyse([training(path, steps=3).write()])
    assert not done.warning and (path / "host_4242_20260101000000123_ascend_ms" / layout.SUMMARY).exists()
