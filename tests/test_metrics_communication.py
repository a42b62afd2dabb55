import json
import pathlib

import polars as pl
import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import communication, steps as metrics_steps
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import store as readers_store
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder, folder_of

WORLD = "hccl_world_group"
KERNEL_NAMES = pl.DataFrame(schema=tables.KERNEL_NAMES)


@pytest.fixture
def store(tmp_path):
    """Return the store of two steps of 10 ms, each with an AllReduce of 4 MB and a Send of 1 MB.

    The second step also has an AllReduce of 2 MB.
    """
    store = StoreBuilder(tmp_path, rank=5, world_size=8)
    process = store.process()
    thread = process.thread()
    thread.instant(f"group {WORLD} ranks 0-7", Category.COMMUNICATION, 0, 8)
    thread.instant("group pair ranks 4,5", Category.COMMUNICATION, 0, 2)
    for number in range(2):
        start = number * 10 * MS
        thread.span(f"AllReduce@{WORLD}", Category.COMMUNICATION, start + MS, start + 3 * MS, arg=4_000_000)
        thread.span("Send@pair", Category.COMMUNICATION, start + 4 * MS, start + 5 * MS, arg=1_000_000)
        thread.step(number, start, start + 10 * MS)
    thread.span(f"AllReduce@{WORLD}", Category.COMMUNICATION, 16 * MS, 17 * MS, arg=2_000_000)
    # these calls have no bytes, no group or no step, so the tables leave them out
    thread.span("Barrier@pair", Category.COMMUNICATION, 18 * MS, 19 * MS)
    thread.span("DistributedGradReducer", Category.COMMUNICATION, 18 * MS, 19 * MS, arg=77)
    thread.span(f"AllReduce@{WORLD}", Category.COMMUNICATION, 30 * MS, 31 * MS, arg=1)
    process.anchor(40 * MS)
    return store


def files(store):
    path = store.write()
    engine.analyse([path])
    names = (layout.COMMUNICATION, layout.COMMUNICATION_MATRIX)
    return [json.loads((folder_of(path) / name).read_text()) for name in names]


def test_calls_have_bytes_and_a_step(store):
    recording = readers_store.read(str(store.write()))
    used = metrics_steps.choose(recording)
    none = pl.DataFrame(schema=tables.KERNELS)
    table = communication.calls(recording, used, none, KERNEL_NAMES, recording.names)
    assert table.select("operation", "group", "number", "bytes", "step").rows() == [
        ("AllReduce", WORLD, 0, 4_000_000, 0),
        ("Send", "pair", 0, 1_000_000, 0),
        ("AllReduce", WORLD, 1, 4_000_000, 1),
        ("Send", "pair", 1, 1_000_000, 1),
        ("AllReduce", WORLD, 2, 2_000_000, 1),
    ]
    assert communication.ranks(recording.instants, recording.names) == {WORLD: list(range(8)), "pair": [4, 5]}


def test_time_of_a_call_is_that_of_its_kernel(store):
    other = store.processes[0].thread(2, "x", 4300)
    # the host's call only queued the kernel, which ran from 6 to 9 ms
    other.window(0, -MS, 35 * MS, [("Default/net-Net/AllReduce-op0", 6 * MS, 3 * MS, "")])
    content, _ = files(store)
    names = list(content["step0"]["collective"])
    assert content["step0"]["collective"][names[0]]["Communication Time Info"]["Elapse Time(ms)"] == 3.0
    assert content["step0"]["p2p"]["Total Op Info"]["Communication Time Info"]["Elapse Time(ms)"] == 1.0


def test_communication_by_step(store):
    content, _ = files(store)
    assert list(content) == ["step0", "step1"]
    collective = content["step1"]["collective"]
    first, second, total = collective
    assert total == "Total Op Info"
    assert first.startswith("hcom_allReduce__") and first.endswith(f"_1_1@{WORLD}") and second.endswith(f"_2_1@{WORLD}")
    (send, _) = content["step1"]["p2p"]
    assert send.startswith("hcom_send__") and send.endswith("@pair")
    time = collective[second]["Communication Time Info"]
    assert (time["Elapse Time(ms)"], time["Transit Time(ms)"], time["Wait Time(ms)"]) == (1.0, 1.0, 0.0)
    assert time["Start Timestamp(us)"] == pytest.approx(1_760_000_000_123_456.789 + 16_000, abs=0.5)
    links = collective[total]["Communication Bandwidth Info"]
    assert set(links) == {"RDMA", "HCCS", "PCIE", "SDMA", "SIO", "TCP"}
    assert links["TCP"] == {
        "Transit Size(MB)": 6.0,
        "Transit Time(ms)": 3.0,
        "Bandwidth(GB/s)": 2.0,
        "Large Packet Ratio": 0,
        "Size Distribution": {"4.0": [1, 2.0], "2.0": [1, 1.0]},
    }
    assert links["SDMA"]["Transit Size(MB)"] == 0


def test_matrix_names_the_rank_within_its_group(store):
    _, content = files(store)
    kinds = content["step1"]
    assert set(kinds["collective"]) == {
        f"allreduce-{place}@{WORLD}" for place in ("top1", "middle", "bottom1", "bottom2", "bottom3", "total")
    }
    assert kinds["collective"][f"allreduce-total@{WORLD}"] == {
        "5-5": {"Transport Type": "LOCAL", "Transit Size(MB)": 6.0, "Transit Time(ms)": 3.0, "Bandwidth(GB/s)": 2.0}
    }
    # 2 MB and 4 MB took 1 and 2 ms, so their bandwidths are equal, and the earlier call comes first
    assert kinds["collective"][f"allreduce-top1@{WORLD}"]["5-5"]["Transit Size(MB)"] == 4.0
    assert kinds["collective"][f"allreduce-bottom1@{WORLD}"]["5-5"]["Transit Size(MB)"] == 2.0
    assert kinds["p2p"]["send-total@pair"] == {
        "1-1": {"Transport Type": "LOCAL", "Transit Size(MB)": 1.0, "Transit Time(ms)": 1.0, "Bandwidth(GB/s)": 1.0}
    }


def test_timeline_has_a_lane_a_group(store):
    path = store.write()
    engine.analyse([path])
    events = json.loads((folder_of(path) / layout.TRACE_VIEW).read_text())
    lanes = {
        event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == 4
    }
    assert lanes == {0: f"Group {WORLD} Communication", 1: "Group pair Communication"}
    shown = [
        (event["tid"], event["dur"], event["args"]["bytes"])
        for event in events
        if event["pid"] == 4 and event["ph"] == "X"
    ]
    assert shown == [
        (0, "2000.000", 4_000_000),
        (1, "1000.000", 1_000_000),
        (0, "2000.000", 4_000_000),
        (1, "1000.000", 1_000_000),
        (0, "1000.000", 2_000_000),
    ]


def test_run_that_exchanged_nothing_has_no_such_file(tmp_path):
    store = StoreBuilder(tmp_path)
    store.process().thread().span("reduce", Category.COMMUNICATION, 0, MS)
    path = store.write()
    engine.analyse([path])
    written = {file.name for file in folder_of(path).iterdir()}
    assert not written & {layout.COMMUNICATION, layout.COMMUNICATION_MATRIX}
    events = json.loads((folder_of(path) / layout.TRACE_VIEW).read_text())
    assert "Communication" not in {event["args"].get("name") for event in events if event["name"] == "process_name"}


def graphs(tmp_path, noted):
    """Return the store of two steps in graph mode.

    Each step has two AllReduces with the same name, with inputs of the shapes 4,8 and 8. The store has `noted` notes
    (text, size) about them.
    """
    store = StoreBuilder(tmp_path, rank=1, world_size=2)
    process = store.process()
    thread = process.thread()
    kernels = []
    for number in range(2):
        start = number * 10 * MS
        thread.span("graph Net", Category.GRAPH, start + MS, start + 9 * MS)
        kernels.append(("Default/AllReduce-op0", start + 2 * MS, MS, "input_1:[4, 8];input_2:NoShape;"))
        kernels.append(("Default/AllReduce-op0", start + 5 * MS, 2 * MS, "input_1:[8];input_2:NoShape;"))
        thread.step(number, start, start + 10 * MS)
    for text, size in noted:
        thread.instant(text, Category.COMMUNICATION, 0, size)
    thread.window(0, -MS, 25 * MS, kernels)
    process.anchor(40 * MS)
    return store


def test_kernel_of_a_graph_is_an_exchange(tmp_path):
    name = "Default/AllReduce-op0"
    noted = [(f"exchange AllReduce@world of 4,8 by {name}", 128), (f"exchange AllReduce@world of 8 by {name}", 16)]
    content, matrix = files(graphs(tmp_path, noted))
    for number, kinds in enumerate(content.values()):
        calls = list(kinds["collective"].items())
        assert [call.rpartition("__")[2].partition("_")[2] for call, _ in calls[:2]] == [
            f"{2 * number}_1@world",
            f"{2 * number + 1}_1@world",
        ]
        links = [call["Communication Bandwidth Info"]["TCP"] for _, call in calls]
        assert [(link["Transit Size(MB)"], link["Transit Time(ms)"]) for link in links] == [
            (128e-6, 1),
            (16e-6, 2),
            (144e-6, 3),
        ]
    assert matrix["step1"]["collective"]["allreduce-total@world"]["1-1"]["Transit Size(MB)"] == 144e-6


def test_kernel_that_several_graphs_mean_differently_is_none(tmp_path):
    name = "Default/AllReduce-op0"
    noted = [
        (f"exchange AllReduce@world of 4,8 by {name}", 128),
        (f"exchange AllReduce@pair of 4,8 by {name}", 128),
        (f"exchange AllReduce@world of 8 by {name}", 16),
        ("exchange AllReduce@world of 8 by Default/AllReduce-op1", 16),
    ]
    content, _ = files(graphs(tmp_path, noted))
    sizes = [
        call["Communication Bandwidth Info"]["TCP"]["Transit Size(MB)"]
        for kinds in content.values()
        for name, call in kinds["collective"].items()
        if name.startswith("hcom")
    ]
    assert sizes == [16e-6] * 2


def test_communication_is_the_kernel_and_not_the_call_that_queued_it(tmp_path):
    store = StoreBuilder(tmp_path)
    process = store.process()
    thread = process.thread()
    # A reducer takes 6 ms on the host. In it, a call of 3 ms queues a kernel of 1 ms, and a call of 1 ms queues none.
    thread.span("DistributedGradReducer", Category.COMMUNICATION, MS, 7 * MS)
    thread.span("AllReduce@world", Category.COMMUNICATION, 2 * MS, 5 * MS, arg=8)
    thread.span("Broadcast@world", Category.COMMUNICATION, 5 * MS, 6 * MS, arg=8)
    thread.step(0, 0, 10 * MS)
    thread.window(0, -MS, 12 * MS, [("Default/AllReduce-op0", 3 * MS, MS, "")])
    process.anchor(40 * MS)
    content, _ = files(store)
    assert content["step0"]["collective"]["Total Op Info"]["Communication Time Info"]["Elapse Time(ms)"] == 2
    header, row = (folder_of(store.path) / layout.STEP_TRACE_TIME).read_text().splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["Communication"] == "2000.000"


@pytest.mark.parametrize("known", [False, True])
def test_rank_is_the_one_the_framework_gave(tmp_path, known):
    store = StoreBuilder(tmp_path, rank=0, rank_known=known, world_size=4, options={"ranks": "0"})
    thread = store.process().thread()
    thread.step(0, 0, MS)
    engine.analyse([store.write()])
    summary = json.loads((store.path / layout.SUMMARY).read_text())
    missing = {item["what"] for item in summary["not_collected"]}
    assert missing == (set() if known else {"the rank", "the choice of ranks"})
    assert [path.name for path in store.path.glob("profiler_info_*")] == ["profiler_info_0.json"]
    thread.instant("rank 3 of 4", Category.COMMUNICATION, 0, 3)
    engine.analyse([store.write()])
    summary = json.loads((store.path / layout.SUMMARY).read_text())
    assert (summary["rank"], summary["world_size"]) == (3, 4)
    assert "the rank" not in {item["what"] for item in summary["not_collected"]}
    # the analysis removed the file under another rank, because readers would take it for one more rank
    assert [path.name for path in store.path.glob("profiler_info_*")] == ["profiler_info_3.json"]


@pytest.mark.parametrize(
    ("note", "parts"),
    [
        ("parallel mode data_parallel in 2 stages", (8, 1, 2, 4)),
        ("parallel mode data_parallel in 3 stages", None),
        ("parallel mode stand_alone in 1 stages", None),
        ("parallel mode semi_auto_parallel in 2 stages", None),
    ],
)
def test_metadata_has_groups_and_parallel_sizes(store, note, parts):
    thread = store.processes[0].thread(2, "other")
    thread.instant(note, Category.COMMUNICATION, 0, 1)
    path = store.write()
    engine.analyse([path])
    metadata = json.loads((pathlib.Path(path) / "profiler_metadata.json").read_text())
    assert metadata["parallel_group_info"] == {
        WORLD: {"group_name": WORLD, "group_rank": 5, "global_ranks": list(range(8))},
        "pair": {"group_name": "pair", "group_rank": 1, "global_ranks": [4, 5]},
    }
    names = ["world_size", *(f"{kind}_parallel_size" for kind in ("tensor_model", "pipeline_model", "data"))]
    assert metadata.get("distributed_args") == (dict(zip(names, parts, strict=True)) if parts else None)
