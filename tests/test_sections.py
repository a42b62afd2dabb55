import gzip
import json
import pathlib
import subprocess
import sys

import polars as pl
import pytest
from conftest import environment
from ms_profiler.analysis.driver import engine, sections, thinning
from ms_profiler.analysis.model.tables import EARLIEST, SAMPLED
from ms_profiler.analysis.readers import slot_table, store as readers_store
from ms_profiler.analysis.writers.lanes import MODULES, OVERLAP
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder, folder_of
from test_thinning import nested


@pytest.fixture
def small(monkeypatch):
    """Lower the sizes of sections and of files so that a small run has several of them."""
    monkeypatch.setattr(readers_store, "MOST_SLOTS", 100)
    monkeypatch.setattr(slot_table, "BATCH", 32 * 100)
    monkeypatch.setattr(thinning.kept_steps, "__defaults__", (600,))
    monkeypatch.setattr(sections, "MOST", 500)


def operators(parent, steps=40):
    """Write a PyTorch run on two threads with modules and nested operators."""
    store = StoreBuilder(parent, framework={"name": "torch", "version": "2.13.0", "device": "CPU"})
    process = store.process()
    threads = [process.thread(1), process.thread(2, "autograd", 4300)]
    for number in range(steps):
        start = number * MS
        threads[0].span("forward", Category.FORWARD, start, start + MS // 2)
        threads[0].span("Net", Category.MODULE, start, start + MS // 2)
        threads[0].span("Linear fc", Category.MODULE, start + 10, start + MS // 3)
        for thread in threads:
            for place in range(20):
                begin = start + 1000 + place * 20_000
                thread.span("aten::linear", Category.OP, begin, begin + 18_000)
                thread.span(f"aten::addmm_{place % 3}", Category.OP, begin + 1000, begin + 9_000 + place)
            thread.span("aten::mm", Category.OP, start + 500_000, start + 600_000)
            thread.span("aten::resolve_conj", Category.OP, start + 501_000, start + 501_500)
            if number % 7 == 6:
                thread.new_segment()
        threads[0].step(number, start, start + MS)
    return store


def files_of(path, **options):
    """Analyse a run; return {name: events} of its timelines, and {name: bytes} of its other files."""
    engine.analyse([path], **options)
    files = {file.name: file.read_bytes() for file in folder_of(path).iterdir()}
    timelines = {name: json.loads(files.pop(name)) for name in sorted(files) if name.endswith("json")}
    return timelines, files


def drawn(timeline, overlap=True):
    """Return the drawn events as sorted texts, without metadata and modules, and optionally without the overlap lanes.

    Modules are left out, because the timeline of a run that is too large for memory has the modules of some steps only.
    """
    left_out = {MODULES} if overlap else {MODULES, OVERLAP}
    shown = [event for event in timeline if event["ph"] != "M" and event["pid"] not in left_out]
    return sorted(json.dumps(event, sort_keys=True) for event in shown)


@pytest.mark.parametrize("build", [nested, operators])
def test_the_files_of_a_long_timeline_hold_every_event_once(tmp_path, small, monkeypatch, build):
    path = build(tmp_path).write()
    cut, _ = files_of(path)
    assert json.loads((path / layout.SUMMARY).read_text())["coverage"]["timeline_files"] == len(cut)
    monkeypatch.setattr(readers_store, "MOST_SLOTS", 10**9)
    whole, _ = files_of(path)
    assert set(whole) == {layout.TRACE_VIEW}, "what the longer one left is removed"
    assert set(cut) == {layout.TRACE_VIEW, *(layout.trace_slice(number) for number in range(1, len(cut)))}
    assert len(cut) > 2
    assert json.loads((path / layout.SUMMARY).read_text())["coverage"]["timeline_files"] == 1
    # The analysis keeps operators of some steps only. So the overlap lanes of a long run show phases in place of
    # operators.
    overlap = build is nested
    events = sorted(event for timeline in cut.values() for event in drawn(timeline, overlap))
    assert events == drawn(whole[layout.TRACE_VIEW], overlap)


def test_each_file_can_be_opened_alone_and_is_some_time_of_the_run(tmp_path, small):
    cut, _ = files_of(nested(tmp_path).write())
    before = ""
    for name in sorted(cut, key=lambda name: int("0" + "".join(filter(str.isdigit, name)))):
        timeline = cut[name]
        lanes = {(event["pid"], event["tid"]) for event in timeline if event["name"] == "thread_name"}
        fine = [event for event in timeline if event.get("args", {}).get("category") in ("module", "op")]
        assert {(event["pid"], event["tid"]) for event in fine} <= lanes
        assert min(event["ts"] for event in fine) >= before
        before = max(event["ts"] for event in fine)


def test_tables_do_not_know_of_sections(tmp_path, small, monkeypatch):
    """The first operator of a section has its module and its wait since the operator before it, too."""
    path = operators(tmp_path).write()
    _, cut = files_of(path)
    monkeypatch.setattr(readers_store, "MOST_SLOTS", 10**9)
    _, whole = files_of(path)

    def rows(files):
        header, *lines = files[layout.KERNEL_DETAILS].decode().splitlines()
        return header, sorted(lines)

    assert rows(cut) == rows(whole)
    assert sum(",aten::mm," in line and ",99.500," in line for line in rows(cut)[1]) == 80
    assert cut[layout.OP_STATISTIC] == whole[layout.OP_STATISTIC]


@pytest.mark.slow
def test_all_steps_of_a_run_are_measured_in_one_way(tmp_path, small, monkeypatch):
    """The analysis measures all steps by operators.

    If it keeps the operators of some steps only, it measures all steps by phases. The summary says which.
    """
    path = operators(tmp_path).write()

    def computed():
        _, files = files_of(path)
        source = json.loads((path / layout.SUMMARY).read_text())["sources"]["step_trace_time"]
        _, *lines = files[layout.STEP_TRACE_TIME].decode().splitlines()
        return source, {line.split(",")[1] for line in lines}

    assert computed() == ("phases of the stepping thread", {"500.000"})
    monkeypatch.setattr(readers_store, "MOST_SLOTS", 10**9)
    source, times = computed()
    assert source == "PyTorch's operators" and "500.000" not in times


def test_only_the_chosen_steps_are_written(tmp_path, small, monkeypatch):
    path = nested(tmp_path).write()
    cut, _ = files_of(path, step_list=list(range(10, 40)))
    monkeypatch.setattr(readers_store, "MOST_SLOTS", 10**9)
    whole, _ = files_of(path, step_list=list(range(10, 40)))
    assert len(cut) > 1
    assert sorted(event for timeline in cut.values() for event in drawn(timeline)) == drawn(whole[layout.TRACE_VIEW])


def test_an_interrupted_analysis_leaves_the_files_of_the_one_before(tmp_path, small, monkeypatch):
    path = nested(tmp_path).write()
    before, tables = files_of(path)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("ms_profiler.analysis.writers.kernel_details.write", interrupted)
    monkeypatch.setattr("ms_profiler.analysis.writers.kernel_details.applies", lambda _: True)
    with pytest.raises(KeyboardInterrupt):
        engine.analyse([path])
    left = {file.name for file in folder_of(path).iterdir()}
    assert left == {*before, *tables}
    assert {name: json.loads((folder_of(path) / name).read_text()) for name in before} == before


def test_sections_end_where_steps_begin(tmp_path, small):
    recording = readers_store.read(nested(tmp_path).write())
    steps = pl.DataFrame({"start_ns": recording.steps["start_ns"]})
    found = sections.bounds(recording, steps, most=500)
    assert found == sorted(set(found))
    assert set(found) <= set(steps["start_ns"])
    sizes = [
        sum(batch.height for batch in recording.again((begin, end), False))
        for begin, end in zip([EARLIEST, *found], [*found, 2**63 - 1], strict=True)
    ]
    assert sum(sizes) == recording.fine + recording.spans.height
    assert max(sizes) < 500 + 4 * SAMPLED + 100


def test_a_run_without_steps_is_cut_anywhere(tmp_path, small):
    store = StoreBuilder(tmp_path)
    thread = store.process().thread()
    for number in range(3000):
        thread.span("op", Category.OP, number * MS, (number + 1) * MS)
    cut, _ = files_of(store.write())
    assert len(cut) >= 6
    assert sum(event["name"] == "op" for timeline in cut.values() for event in timeline) == 3000


def test_the_summary_says_where_a_long_timeline_is(tmp_path, small, capsys):
    from ms_profiler.cli import main

    path = nested(tmp_path).write()
    assert main(["summary", "--all", str(path)]) == 0
    assert "files, each with a part of the run: trace_view.json, msprof_slice_1.json" in capsys.readouterr().out


def test_progress_is_reported_from_the_first_batch_to_the_end(tmp_path, small):
    reports = []
    engine.analyse([nested(tmp_path).write()], progress=lambda *seen: reports.append(seen))
    shares = [share for _, share, _ in reports]
    assert len(shares) > 20 and shares == sorted(shares)
    assert 0 < shares[0] < 0.1 and shares[-1] > 0.9


def test_packed_timelines_are_the_same_and_take_the_place_of_the_others(tmp_path, small):
    path = nested(tmp_path).write()
    plain, _ = files_of(path)
    engine.analyse([path], packed=True)
    packed = {file.name: gzip.decompress(file.read_bytes()) for file in folder_of(path).glob("*.json*")}
    assert {name.removesuffix(".gz"): json.loads(text) for name, text in packed.items()} == plain
    assert all(name.endswith(".gz") for name in packed)
    assert files_of(path)[0] == plain
    assert not list(folder_of(path).glob("*.gz"))


ANALYSIS = """
import sys
{}
from ms_profiler.analysis.driver import engine, sections, thinning
from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.readers import slot_table as slots
from ms_profiler.analysis.readers import store
store.MOST_SLOTS, slots.BATCH, thinning.kept_steps.__defaults__, sections.MOST = {}
engine.analyse([sys.argv[1]], forms=["kineto", "parquet"])
print(COLUMNS.kind)
"""


@pytest.mark.parametrize(
    ("build", "sections"),
    [
        (nested, True),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in ((nested, False), (operators, False), (operators, True))
        ),
    ],
)
def test_without_the_extension_every_file_is_the_same(tmp_path, build, sections):
    limits = (100 if sections else 10**9, 3200, (600,), 500)
    path, found = build(tmp_path).write(), {}
    for without, kind in (("", "native"), ("sys.modules['ms_profiler._columns'] = None", "plain")):
        command = [sys.executable, "-c", ANALYSIS.format(without, limits), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
        assert done.stdout.split() == [kind]
        files = (file for file in pathlib.Path(path).rglob("*") if file.is_file())
        found[kind] = {str(file): file.read_bytes() for file in files}
    assert found["native"] == found["plain"]
    assert sum(name.endswith("json") for name in found["plain"]) > 5
