import json
import random

import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.writers import trace_view
from ms_profiler.store.format import Category, Flag
from store_builder import BACKWARD, FORWARD, MS, UPDATE, WALL_NS, StoreBuilder, compiled, folder_of, launching, training
from timeline import bounds, lanes, nanoseconds


def events_of(store, **options):
    path = store.write()
    engine.analyse([path], **options)
    return json.loads((folder_of(path) / "trace_view.json").read_text(encoding="utf-8"))


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path)


def test_every_interval_comes_back_to_the_nanosecond(store):
    generator = random.Random(6)
    thread = store.process().thread()
    expected = set()
    start = 0
    for number in range(500):
        start += generator.randrange(10**9)
        end = start + generator.choice([0, 1, 999, 1000, generator.randrange(10**10)])
        thread.span(f"span {number}", Category.FORWARD, start, end)
        expected.add((f"span {number}", WALL_NS + start, WALL_NS + end))
    found = {(event["name"], *bounds(event)) for event in events_of(store) if event["name"].startswith("span")}
    assert found == expected


def test_list_of_the_kinds_that_readers_know(tmp_path):
    store = training(tmp_path)
    thread = store.processes[0].thread(2, "host", 4300)
    thread.counter("rss", 5 * MS, 1.5)
    thread.instant("mark", Category.MARKER, 6 * MS)
    events = events_of(store)
    assert isinstance(events, list)
    assert {event["ph"] for event in events} == {"X", "M", "C"}
    for event in events:
        if event["ph"] == "X":
            assert isinstance(event["args"], dict) and bounds(event)[0] >= WALL_NS
        if event["ph"] == "M":
            assert event["name"] in {
                "process_name",
                "process_labels",
                "process_sort_index",
                "thread_name",
                "thread_sort_index",
            }


def test_lanes_have_names(tmp_path):
    store = training(tmp_path)
    store.process(5000, role="fork").thread(1, "MainThread", 5000).span("fetch", Category.DATA, 0, MS)
    processes, threads = lanes(events_of(store))
    assert set(processes.values()) == {"MindSpore", "MindSpore fork 5000", "Modules", "Overlap Analysis", "Whole run"}
    (host,) = (pid for pid, name in processes.items() if name == "MindSpore")
    assert threads[host, 4242] == "MainThread 4242"
    overlap = {name for (pid, _), name in threads.items() if processes[pid] == "Overlap Analysis"}
    assert overlap == {"Computing", "Communication", "Communication(Not Overlapped)", "Free"}
    assert threads[host, 0] == "Steps"


def test_every_event_is_in_a_named_lane(tmp_path):
    store = training(tmp_path)
    store.process(5000, role="fork").thread().span("fetch", Category.DATA, 0, MS)
    events = events_of(store)
    processes, threads = lanes(events)
    for event in events:
        assert event["pid"] in processes
        if event["ph"] == "X":
            assert (event["pid"], event["tid"]) in threads


def test_only_calls_and_steps_are_cpu_op_and_args_hold_step_and_category(tmp_path):
    events = events_of(training(tmp_path, steps=3))
    calls = [event for event in events if event.get("cat") == "cpu_op"]
    assert [event["name"] for event in calls[:3]] == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    operators = calls[3:]
    assert [event["name"] for event in operators] == ["MatMul"] * 3
    assert [event["args"] for event in operators] == [{"category": "op", "step": number} for number in range(3)]
    data = [event["args"] for event in events if event["name"] == "next"]
    assert data == [{"category": "data", "step": number} for number in range(3)]


def test_steps_are_events_and_spans_outside_have_none(tmp_path):
    store = training(tmp_path, steps=2)
    store.processes[0].thread(2, "io", 4300).span("early", Category.IMPORT, 0, MS)
    events = events_of(store)
    steps = {event["name"]: bounds(event) for event in events if event["name"].startswith("ProfilerStep#")}
    assert steps == {
        "ProfilerStep#0": (WALL_NS + 50 * MS, WALL_NS + 160 * MS - 1),
        "ProfilerStep#1": (WALL_NS + 160 * MS, WALL_NS + 170 * MS),
    }
    (early,) = (event for event in events if event["name"] == "early")
    assert early["args"] == {"category": "import"}


def test_overlap_lane_adds_up_to_the_table(tmp_path):
    store = training(tmp_path)
    events = events_of(store)
    processes, _ = lanes(events)
    totals = {}
    for event in events:
        if event["ph"] == "X" and processes[event["pid"]] == "Overlap Analysis":
            start, end = bounds(event)
            totals[event["name"]] = totals.get(event["name"], 0) + end - start
    rows = (folder_of(store.path) / "step_trace_time.csv").read_text().splitlines()
    columns = rows[0].split(",")
    for lane in ("Computing", "Free"):
        column = sum(nanoseconds(row.split(",")[columns.index(lane)]) for row in rows[1:])
        assert totals[lane] == column > 0


def test_flags_of_spans_are_written(store):
    process = store.process(state="running", end="")
    thread = process.thread()
    thread.span("raised", Category.DATA, 0, MS, flags=Flag.RAISED)
    thread.span("abandoned", Category.DATA, MS, 2 * MS, flags=Flag.ABANDONED | Flag.RAISED)
    thread.open("hangs", Category.DATA, 3 * MS)
    args = {event["name"]: event["args"] for event in events_of(store) if event["ph"] == "X"}
    assert args["raised"] == {"category": "data", "step": 0, "raised": True}
    assert args["abandoned"] == {"category": "data", "step": 0, "raised": True, "abandoned": True}
    assert args["hangs"]["unfinished"] is True


def test_instants_and_counters(store):
    thread = store.process().thread()
    thread.span("work", Category.DATA, 0, 10 * MS)
    thread.instant("mark", Category.MARKER, 4 * MS)
    thread.counter("rss", 5 * MS, 1234.5)
    events = events_of(store)
    (mark,) = (event for event in events if event["name"] == "mark")
    assert bounds(mark) == (WALL_NS + 4 * MS, WALL_NS + 4 * MS)
    (counter,) = (event for event in events if event["ph"] == "C")
    assert counter["args"] == {"value": 1234.5} and nanoseconds(counter["ts"]) == WALL_NS + 5 * MS


@pytest.mark.parametrize("name", ['quote " and \\', "new\nline\ttab", "größe 形状 \U0001f600", "", "a,b;c\r", "{}{}"])
def test_names_survive(store, name):
    thread = store.process().thread()
    thread.span(name, Category.OP, 0, MS)
    _, *events = [event for event in events_of(store) if event.get("cat") == "cpu_op"]
    assert [event["name"] for event in events] == [name]


def test_pretty_holds_the_same_events(tmp_path):
    store = training(tmp_path, steps=3)
    plain, pretty = events_of(store), events_of(store, pretty=True)
    assert pretty == plain
    assert "\n    " in (folder_of(store.path) / "trace_view.json").read_text()


def test_pieces_join_without_a_seam(tmp_path, monkeypatch):
    store = training(tmp_path, steps=30)
    whole = events_of(store)
    monkeypatch.setattr(trace_view, "CHUNK", 7)
    assert events_of(store) == whole


def test_operators_are_in_the_lane_of_their_thread_and_kernels_in_their_own(tmp_path):
    store = compiled(tmp_path, steps=2, windows=1)
    child = store.process(5000, role="fork").thread(1, "MainThread", 5000)
    child.span("MatMul", Category.OP, 60 * MS, 61 * MS)
    child.window(0, 50 * MS, 90 * MS, [(FORWARD, 61 * MS, MS, "", 3)])
    events = events_of(store)
    processes, threads = lanes(events)
    assert (processes[2], processes[3], processes[12]) == ("CPU OP", "Scope Layer", "CPU OP fork 5000")
    assert threads[2, 0] == "Thread 0" and threads[12, 3] == "Thread 3"
    (operator,) = (event for event in events if event.get("cat") == "cpu_op" and event["name"] == "MatMul")
    assert (operator["pid"], operator["tid"]) == (11, 5000)
    order = {event["pid"]: event["args"]["sort_index"] for event in events if event["name"] == "process_sort_index"}
    assert (order[1], order[2], order[3]) == (1, 2, 12)


def test_kernels_come_back_to_the_nanosecond_with_their_arguments(tmp_path):
    store = compiled(tmp_path, steps=2, windows=1)
    kernels = [event for event in events_of(store) if event["pid"] == 2 and event["ph"] == "X"]
    assert [event["name"] for event in kernels] == [FORWARD, BACKWARD, UPDATE] * 2
    assert bounds(kernels[4]) == (WALL_NS + 64 * MS, WALL_NS + 67 * MS)
    assert kernels[4]["cat"] == ""
    assert kernels[4]["args"] == {
        "type": "HostCpuOps",
        "op": "MatMul",
        "step": 1,
        "module": "network._backbone.fc",
        "shapes": "4,8;8,8",
        "part": "backward",
    }


def test_a_kernel_without_arguments(store):
    process = store.process()
    process.thread().window(0, 0, MS, [("Mul", 1000, 1001, "")])
    process.anchor(2 * MS)
    (event,) = (event for event in events_of(store) if event["pid"] == 2 and event["ph"] == "X")
    assert event["args"] == {"type": "HostCpuOps", "op": "Mul", "step": 0}
    assert event["dur"] == "1.001"


def test_flows_lead_from_the_operator_to_its_kernel(store):
    events = events_of(launching(store))
    ends = {"s": {}, "f": {}}
    for event in events:
        if event["ph"] in "sf":
            assert (event["name"], event["cat"], event["bp"]) == ("mindspore_to_self", "async_mindspore", "e")
            assert isinstance(event["id"], int) and event["id"] < 2**53 and event["id"] not in ends[event["ph"]]
            ends[event["ph"]][event["id"]] = (event["pid"], event["tid"], event["ts"])
    assert len(ends["s"]) == 6 and ends["s"].keys() == ends["f"].keys()
    known = {(event["pid"], event["tid"], event["ts"]): event["name"] for event in events if event["ph"] == "X"}
    for number, start in ends["s"].items():
        assert known[start] == known[ends["f"][number]]
        assert (start[0], ends["f"][number][0]) == (1, 2)


def test_scopes_have_a_lane_a_depth(tmp_path):
    events = events_of(compiled(tmp_path, steps=1, windows=1))
    scopes = [
        (event["tid"], event["name"], event["dur"]) for event in events if event["pid"] == 3 and event["ph"] == "X"
    ]
    assert scopes == [
        (0, "Default", "2000.000"),
        (0, "Gradients", "3000.000"),
        (0, "Default", "500.000"),
        (1, "network-Loss", "2000.000"),
        (1, "Default", "3000.000"),
        (1, "optimizer-Momentum", "500.000"),
        (2, "_backbone-Net", "2000.000"),
        (2, "network-Loss", "3000.000"),
        (3, "fc-Dense", "2000.000"),
        (3, "_backbone-Net", "3000.000"),
        (4, "fc-Dense", "3000.000"),
        (5, "Grad_MatMul", "3000.000"),
    ]


def test_timeline_with_kernels_has_only_kinds_that_readers_know(tmp_path, monkeypatch):
    store = compiled(tmp_path)
    store.processes[0].thread(2, "x", 4300).span("MatMul", Category.OP, 51 * MS, 52 * MS)
    whole = events_of(store)
    assert {event["ph"] for event in whole} <= {"X", "M", "C", "s", "t", "f"}
    for event in whole:
        if event["ph"] == "X":
            assert nanoseconds(event["ts"]) > 0 and nanoseconds(event["dur"]) >= 0
    monkeypatch.setattr(trace_view, "CHUNK", 7)
    assert events_of(store) == whole


def test_overlap_lane_is_that_of_the_kernels(tmp_path):
    events = events_of(compiled(tmp_path, steps=2, windows=1))
    _, threads = lanes(events)
    computing = [
        bounds(event)
        for event in events
        if event["ph"] == "X" and threads.get((event["pid"], event["tid"])) == "Computing"
    ]
    first = WALL_NS + 52 * MS
    assert computing == [
        (first + start * MS, first + int(end * MS)) for start, end in ((0, 5), (6, 6.5), (10, 15), (16, 16.5))
    ]
