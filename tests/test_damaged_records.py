"""The analysis leaves out and counts a record with impossible numbers, and analyses the rest of the run."""

import json

import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.store import layout
from ms_profiler.store.device_format import Device, Source
from ms_profiler.store.format import Category, Kind
from store_builder import MS, RAW_NS, training

#: a raw time that is too large for a signed 64-bit integer once the clock's offset is added
LATE = 2**63 - 1000


def made(parent):
    """Return the store of a run of six steps, each with a kernel on a device and the kernel's launch."""
    store = training(parent, steps=6)
    thread = store.processes[0].thread(2, "launcher", 77)
    for number in range(6):
        thread.launch("gemm", (150 + 10 * number) * MS, (152 + 10 * number) * MS, MS, number + 1)
    return store


def analysed(store, **options):
    """Analyse a store; return its summary, and the warning about damaged records."""
    path = store.write()
    (result,) = engine.analyse([path], **options)
    return json.loads((path / layout.SUMMARY).read_text()), result.warning


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the summary of the undamaged run."""
    summary, warning = analysed(made(tmp_path_factory.mktemp("whole")))
    assert warning == ""
    return summary


TASK = (Device.KERNEL, int(Source.CUPTI))
TIMES = {
    "task-backwards": (Kind.DEVICE, RAW_NS + 5 * MS, RAW_NS + 4 * MS, 9, 1, *TASK),
    "task-late": (Kind.DEVICE, LATE, LATE + 1, 9, 1, *TASK),
    "call-late": (Kind.DEVICE, LATE, LATE + 1, 9 | 77 << 32, 1, Device.API, int(Source.CUPTI)),
    "operator-late": (Kind.SPAN, RAW_NS + 155 * MS, LATE, 0, 1, Category.OP),
    "module-late": (Kind.SPAN, LATE - 5, LATE, 0, 1, Category.MODULE),
    "phase-late": (Kind.SPAN, LATE - 5, LATE, 0, 1, Category.FORWARD),
    "sample-late": (Kind.SAMPLED, LATE, LATE + 1, 1 | 1 << 32, 1),
    "call-of-python-late": (Kind.CALL, RAW_NS, LATE, 1 << 44, 1),
    "counter-of-the-system-late": (Kind.METRIC, LATE, 77, 5, 1),
    "look-late": (Kind.PROCESSOR, LATE, LATE, 5, 1),
    "block-late": (Kind.BLOCK, LATE, 4096, 5, 64),
    "phase-backwards": (Kind.SPAN, RAW_NS + 9, RAW_NS + 8, 0, 1, Category.FORWARD),
}


@pytest.mark.parametrize("record", TIMES.values(), ids=list(TIMES))
def test_impossible_times(tmp_path, whole, record):
    store = made(tmp_path)
    store.processes[0].segments[2].add(*record)
    damaged, warning = analysed(store, forms=["db"])
    assert warning == "1 records with impossible times"
    for part in ("steps", "phases", "top_operators", "modules", "device"):
        assert damaged[part] == whole[part], part


def test_impossible_readings_of_the_clock(tmp_path, whole):
    store = made(tmp_path)
    for raw, wall, width in ((LATE, 1, 1), (RAW_NS + 1, LATE + 2000, 1), (RAW_NS + 1, 1, LATE)):
        store.processes[0].control.add(Kind.ANCHOR, raw, wall, width)
    store.processes[0].anchor(300 * MS)  # without this last good anchor, the damaged slots would count as half written
    damaged, warning = analysed(store)
    assert warning == "3 slots of unknown kind"
    assert damaged["steps"] == whole["steps"] and damaged["clock"] == whole["clock"]


def test_impossible_blocks_of_memory(tmp_path, whole):
    store = made(tmp_path)
    of = store.processes[0].segments[1]
    of.add(Kind.BLOCK, RAW_NS + 150 * MS, 4096, LATE + 5000, 64)
    of.add(Kind.BLOCK_PLACE, RAW_NS + 150 * MS, 4096, LATE, 1)
    damaged, _ = analysed(store)
    assert damaged["steps"] == whole["steps"] and damaged["phases"] == whole["phases"]


def test_a_block_of_memory_without_any_counter_of_memory(tmp_path, whole):
    store = made(tmp_path)
    store.processes[0].segments[1].add(Kind.BLOCK, RAW_NS + 155 * MS, 4096, 8000, 1000)
    damaged, warning = analysed(store)
    assert warning == "" and damaged["steps"] == whole["steps"]
    assert damaged["memory"]["records"] == 1 and damaged["memory"]["peak_mb"] == pytest.approx(8000 / 2**20, rel=1e-3)


@pytest.mark.parametrize("kind", [Kind.METRIC, Kind.FRAME, Kind.BLOCK, Kind.BLOCK_PLACE, Kind.CALL, Kind.OPERANDS])
def test_every_bit_of_the_second_field(tmp_path, whole, kind):
    store = made(tmp_path)
    store.processes[0].segments[1].add(kind, RAW_NS + 150 * MS, 2**64 - 1, 2**64 - 1, 1)
    damaged, _ = analysed(store)
    assert damaged["steps"] == whole["steps"] and damaged["phases"] == whole["phases"]


def test_a_text_with_an_impossible_number(tmp_path, whole):
    store = made(tmp_path)
    control = store.processes[0].control
    control.add(Kind.STRING, RAW_NS, 0, 4, 2**32 - 2, extra=1)
    control.slots += b"name".ljust(32, b"\0")
    store.processes[0].anchor(300 * MS)
    damaged, warning = analysed(store)
    assert warning == "1 slots of unknown kind" and damaged["steps"] == whole["steps"]


def test_impossible_numbers_of_threads(tmp_path, whole):
    store = made(tmp_path)
    store.processes[0].segments[1].add(Kind.THREAD, RAW_NS, 2**56 + 1, 1, 1)
    damaged, _ = analysed(store)
    assert damaged["steps"] == whole["steps"] and damaged["phases"] == whole["phases"]


ODD = [
    {"export_type": 5},
    {"export_type": [5, None]},
    {"mstx_domain_include": 5, "mstx_domain_exclude": "x"},
    {"stack_rate": 1e-320, "with_stack": "sample"},
    {"profile_memory": [], "parallel_strategy": {}},
]


@pytest.mark.parametrize("options", ODD, ids=str)
def test_options_of_another_kind(tmp_path, whole, options):
    store = made(tmp_path)
    store.info.options |= options
    damaged, warning = analysed(store)
    assert warning == "" and damaged["steps"] == whole["steps"]


@pytest.mark.parametrize("facts", [{"name": {}}, {"threads": 5}, {"threads": None}], ids=str)
def test_facts_of_another_kind(tmp_path, facts):
    store = made(tmp_path)
    store.info.framework |= facts
    damaged, warning = analysed(store)
    assert "run_info.json" in warning and damaged["steps"]["count"] == 6


def test_a_number_of_five_thousand_digits(tmp_path, whole):
    store = made(tmp_path)
    store.info.framework |= {"threads": "1" * 5000, "processors": "2" * 5000}
    damaged, warning = analysed(store)
    assert warning == "" and damaged["steps"] == whole["steps"]
