import json
import random

import polars as pl
import pytest
import test_sections
from ms_profiler.analysis import columns
from ms_profiler.analysis.columns.plain import PlainColumns
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.readers import store as readers_store
from ms_profiler.analysis.streams import kernel_stream as kernels
from ms_profiler.analysis.writers import perfetto_trace
from ms_profiler.store.format import Category, Flag
from perfetto_reader import read
from store_builder import FORWARD, MS, WALL_NS, StoreBuilder, compiled, folder_of, launching, training
from test_sections import operators
from test_thinning import nested
from timeline import bounds, lanes, nanoseconds

small = test_sections.small


def analysed(store, **options):
    """Analyse a store; return the timeline as Perfetto's own classes read it, and the events of trace_view.json."""
    path = store.write()
    engine.analyse([path], **options)
    folder = folder_of(path)
    return read(folder / "trace.pftrace"), json.loads((folder / "trace_view.json").read_text(encoding="utf-8"))


def place_of(trace, uuid):
    """Return the process or group and the lane of a track, as trace_view.json names them."""
    group, name = trace.lane(uuid)
    tracks = [each for each in trace.tracks.values() if each.HasField("thread") and each.thread.thread_name == name]
    threads = [each for each in tracks if trace.lane(each.uuid)[0] == group]
    return group, f"{name} {threads[0].thread.tid}" if threads else name


def arguments_of(event):
    args = dict(event["args"])
    args.pop("category", None)
    return args


def same(trace, events):
    """Check that both timelines have the same content, except for trace_view.json's nanosecond between steps."""
    processes, threads = lanes(events)
    drawn = [event for event in events if event["ph"] == "X"]
    step = [event for event in drawn if event["name"].startswith("ProfilerStep#")]
    assert len(step) == len([each for each in trace.slices if each.category == "step"])
    expected = sorted(
        (
            processes[event["pid"]],
            threads[event["pid"], event["tid"]],
            event["name"],
            *bounds(event),
            str(arguments_of(event)),
        )
        for event in drawn
        if event not in step
    )
    got = sorted(
        (*place_of(trace, each.track), each.name, each.start, each.end or each.start, str(each.args))
        for each in [*trace.slices, *trace.instants]
        if each.category != "step"
    )
    assert got == expected


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path)


def busy(tmp_path):
    """Build a run with kernels, threads, processes, crossing operators, markers and counters."""
    store = compiled(tmp_path)
    thread = store.processes[0].thread(2, "worker", 4300)
    generator = random.Random(3)
    for number in range(60):
        start = 50 * MS + generator.randrange(90 * MS)
        thread.span(f"aten::op{number % 5}", Category.OP, start, start + generator.randrange(9 * MS))
        thread.instant("mark", Category.MARKER, start + 1)
        thread.counter("rss", 50 * MS + number * 1001, number / 4)
    thread.span("raised", Category.DATA, 51 * MS, 52 * MS, flags=Flag.RAISED | Flag.ABANDONED)
    child = store.process(5000, role="fork", state="running", end="").thread(1, "MainThread", 5000)
    child.span("fetch", Category.DATA, 60 * MS, 61 * MS)
    child.open("hangs", Category.MODULE, 62 * MS)
    return store


def test_the_same_is_drawn_as_in_trace_view(tmp_path):
    trace, events = analysed(busy(tmp_path))
    same(trace, events)
    counters = [(nanoseconds(event["ts"]), event["args"]["value"]) for event in events if event["ph"] == "C"]
    assert [(time, value) for _, time, value in trace.counters] == counters
    (track,) = {track for track, _, _ in trace.counters}
    assert trace.tracks[track].name == "rss" and trace.lane(trace.tracks[track].parent_uuid) == ("MindSpore", "worker")


def test_steps_end_where_the_next_one_begins(tmp_path):
    trace, _ = analysed(training(tmp_path, steps=3))
    steps = [each for each in trace.slices if each.category == "step"]
    assert [(each.name, each.start - WALL_NS, each.end - WALL_NS, each.depth) for each in steps] == [
        ("ProfilerStep#0", 50 * MS, 160 * MS, 0),
        ("ProfilerStep#1", 160 * MS, 170 * MS, 0),
        ("ProfilerStep#2", 170 * MS, 180 * MS, 0),
    ]
    assert {trace.lane(each.track) for each in steps} == {("MindSpore", "Steps")}


def test_slices_nest_on_every_track(tmp_path):
    trace, _ = analysed(busy(tmp_path))
    further = 0
    for track in {each.track for each in trace.slices}:
        ends = []
        for each in (each for each in trace.slices if each.track == track):
            while ends and ends[-1] <= each.start:
                ends.pop()
            assert each.depth == len(ends) and (not ends or ends[-1] >= each.end)
            ends.append(each.end)
        further += track > 2**32
    assert further


def test_categories_are_those_of_the_spans(tmp_path):
    trace, events = analysed(busy(tmp_path))
    expected = {(event["name"], event["args"]["category"]) for event in events if "category" in event.get("args", ())}
    own = {"step", "overlap", "part", "owner", "kernel", "scope"}
    assert {
        (each.name, each.category) for each in [*trace.slices, *trace.instants] if each.category not in own
    } == expected
    assert {each.category for each in trace.slices} >= own


def flows_of(trace):
    """Return {number: ((lane, start) of the flow's first slice, (lane, start) of its last slice)}."""
    sources = {number: each for each in trace.slices for number in each.flows}
    targets = {number: each for each in trace.slices for number in each.ends}
    assert sources.keys() == targets.keys()
    return {
        number: tuple((*place_of(trace, end.track), end.start) for end in (sources[number], targets[number]))
        for number in sources
    }


def flows_in(events):
    processes, threads = lanes(events)
    ends = {
        kind: {
            event["id"]: (processes[event["pid"]], threads[event["pid"], event["tid"]], nanoseconds(event["ts"]))
            for event in events
            if event["ph"] == kind
        }
        for kind in "sf"
    }
    return {number: (ends["s"][number], ends["f"][number]) for number in ends["s"]}


def test_flows_lead_from_calls_to_kernels_as_in_trace_view(store):
    trace, events = analysed(launching(store))
    assert len(flows_of(trace)) == 6
    assert flows_of(trace) == flows_in(events)
    assert max(flows_of(trace)) < 2**53


def test_flows_that_begin_outside_of_the_chosen_steps_are_left_out(store):
    launching(store)
    trace, _ = analysed(store, step_list=[1])
    assert [target[2] - WALL_NS for _, target in flows_of(trace).values()] == [MS + 150, MS + 350]
    assert {each.category for each in trace.slices if each.ends} == {"kernel"}


@pytest.mark.parametrize("chosen", [None, [3, 4]])
def test_counters_are_those_of_the_chosen_steps(store, chosen):
    """Otherwise the counters of a long run alone would fill the disk space that a few steps may take."""
    thread = store.process().thread()
    for number in range(10):
        thread.step(number, number * MS, (number + 1) * MS)
        thread.counter("host memory", number * MS + MS // 2, 1000.0 + number)
    trace, events = analysed(store, step_list=chosen)
    expected = [1000 + number for number in chosen or range(10)]
    assert [next(iter(event["args"].values())) for event in events if event["ph"] == "C"] == expected
    assert [value for _, _, value in trace.counters] == expected


def test_flows_lead_from_operators_to_their_gradients(store):
    store.info.framework = {"name": "torch", "version": "2.13.0", "device": "CPU"}
    thread = store.process().thread()
    for number in range(3):
        thread.span("aten::mul", Category.OP, number * 100, number * 100 + 50, arg=2 * (number + 1))
        thread.span("MulBackward0", Category.OP, MS - number * 100, MS - number * 100 + 50, arg=2 * (number + 1) + 1)
    trace, events = analysed(store)
    assert len(flows_of(trace)) == 3
    assert flows_of(trace) == flows_in(events)
    named = {number: each.name for each in trace.slices for number in each.ends}
    assert set(named.values()) == {"MulBackward0"}


def tied(parent):
    """Write a PyTorch run with kernels, launching operators and gradients that takes several sections."""
    store = StoreBuilder(parent, framework={"name": "torch", "version": "2.13.0", "device": "CPU"})
    thread = store.process().thread()
    for number in range(60):
        start = number * MS
        thread.span("Linear", Category.MODULE, start, start + MS // 2)
        for place in range(10):
            begin = start + place * 20_000
            arg = 2 * (number * 10 + place + 1)
            thread.span("aten::mul", Category.OP, begin, begin + 18_000, arg=arg)
            thread.span("MulBackward0", Category.OP, begin + MS // 2, begin + MS // 2 + 9_000, arg=arg + 1)
        if number % 7 == 6:
            thread.new_segment()
        thread.step(number, start, start + MS)
    return store


def launching_long(parent):
    """Write a MindSpore run with operators that launch kernels that takes several sections."""
    store = StoreBuilder(parent)
    process = store.process()
    thread = process.thread()
    for number in range(60):
        start = number * MS
        for place in range(10):
            thread.span("MatMul", Category.OP, start + place * 30_000, start + place * 30_000 + 20_000)
        if number % 7 == 6:
            thread.new_segment()
        thread.step(number, start, start + MS)
    kernels = [("MatMul", number * MS + place * 30_000 + 100, 50, "") for number in range(60) for place in range(10)]
    thread.window(0, 0, 60 * MS, kernels)
    process.anchor(70 * MS)
    return store


def picture(trace):
    slices = sorted((trace.lane(e.track), e.name, e.category, e.start, e.end, str(e.args)) for e in trace.slices)
    ends = [sorted((number, each.start) for each in trace.slices for number in named(each)) for named in (_out, _in)]
    assert [number for number, _ in ends[0]] == [number for number, _ in ends[1]]
    assert len({number for number, _ in ends[0]}) == len(ends[0])
    flows = sorted((source, target) for (_, source), (_, target) in zip(*ends, strict=True))
    return slices, flows, trace.counters


def _out(each):
    return each.flows


def _in(each):
    return each.ends


def without_overlap(slices):
    return [each for each in slices if each[0][0] not in ("Overlap Analysis", "Modules")]


@pytest.mark.parametrize(
    "build", [operators, launching_long, *(pytest.param(build, marks=pytest.mark.slow) for build in (nested, tied))]
)
def test_a_long_run_is_in_one_file(tmp_path, small, monkeypatch, build):
    store = build(tmp_path)
    cut, _ = analysed(store)
    assert (folder_of(store.path) / "msprof_slice_1.json").exists()
    monkeypatch.setattr(readers_store, "MOST_SLOTS", 10**9)
    monkeypatch.setattr(kernels, "MOST", 10**9)
    whole, events = analysed(store)
    same(whole, events)
    (slices, flows, counters), (all_slices, all_flows, all_counters) = picture(cut), picture(whole)
    # The overlap lanes differ: operators show when steps computed, and phases do in a long run. Modules are those of
    # the detailed steps.
    assert without_overlap(slices) == without_overlap(all_slices) and counters == all_counters
    assert set(flows) <= set(all_flows)
    for track in {each.track for each in cut.slices}:
        times = [each.start for each in cut.slices if each.track == track]
        assert times == sorted(times)


def test_flows_of_a_long_run(tmp_path, small):
    assert len(picture(analysed(tied(tmp_path))[0])[1]) == 600
    other = tmp_path / "other"
    other.mkdir()
    _, flows, _ = picture(analysed(launching_long(other))[0])
    # the calls of the last steps are in the last section, and their kernels in the first one
    assert flows[0][0] == WALL_NS and flows[-1][0] == WALL_NS + 59 * MS + 270_000


def test_exchanges_have_a_track_a_group(tmp_path):
    store = training(tmp_path, steps=2)
    store.processes[0].thread(2, "x", 4300).span(
        "AllReduce@hccl_world_group", Category.COMMUNICATION, 161 * MS, 162 * MS, arg=4096
    )
    trace, events = analysed(store)
    same(trace, events)
    (call,) = (each for each in trace.slices if each.category == "exchange")
    assert trace.lane(call.track) == ("Communication", "Group hccl_world_group Communication")
    assert call.args == {"bytes": 4096}


def test_a_third_of_the_size(tmp_path):
    store = compiled(tmp_path, steps=60)
    thread = store.processes[0].thread(2, "worker", 4300)
    for number in range(3000):
        start = 50 * MS + number * 13_000
        thread.span(f"aten::op{number % 40}", Category.OP, start, start + 9000)
    path = store.write()
    engine.analyse([path])
    sizes = {name: (folder_of(path) / name).stat().st_size for name in ("trace.pftrace", "trace_view.json")}
    assert sizes["trace.pftrace"] * 3 < sizes["trace_view.json"]


def test_the_same_bytes_without_the_extension(tmp_path, monkeypatch):
    store = busy(tmp_path)
    path = store.write()
    engine.analyse([path])
    native = (folder_of(path) / "trace.pftrace").read_bytes()
    monkeypatch.setattr(perfetto_trace, "COLUMNS", PlainColumns())
    engine.analyse([path])
    assert columns.COLUMNS.kind == "native"
    assert (folder_of(path) / "trace.pftrace").read_bytes() == native


def test_a_run_without_anything_has_an_empty_timeline(store):
    store.process().anchor(MS)
    trace, _ = analysed(store)
    assert not trace.counters and not trace.instants
    assert {each.category for each in trace.slices} <= {"step", "overlap", "part"}


def test_counts_are_those_of_the_tables(tmp_path):
    store = busy(tmp_path)
    trace, _ = analysed(store)
    recording = readers_store.read(str(store.path))
    spans = [each for each in trace.slices if each.category in {c.name.lower() for c in Category}]
    assert len(spans) == recording.spans.height
    starts = pl.Series([each.start for each in spans]).sort()
    assert starts.to_list() == recording.spans["start_ns"].sort().to_list()
    assert len([each for each in trace.slices if each.name == FORWARD]) == 20
