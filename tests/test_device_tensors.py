"""The frameworks tell how much device memory their allocators hold, which is shown with the device's other memory."""

import json
import sys
from types import SimpleNamespace

import polars as pl
import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import device_tensors as reader
from ms_profiler.job.frameworks.mindspore import runtime_memory
from ms_profiler.job.frameworks.torch import cuda
from ms_profiler.job.samplers.device_tensors import DeviceTensors, Held
from ms_profiler.store import layout
from store_builder import MS, StoreBuilder

MB = 1 << 20
STEPS = 120


def torch_stats(current, peak, reserved):
    return {
        "allocated_bytes": {"all": {"current": current, "peak": peak}},
        "reserved_bytes": {"all": {"current": reserved, "peak": reserved}},
    }


def test_memory_of_each_gpu_in_use_comes_from_pytorch(monkeypatch):
    stats = {0: torch_stats(5, 9, 20), 1: torch_stats(0, 0, 0)}
    fake = SimpleNamespace(
        is_initialized=lambda: True, device_count=lambda: 2, memory_stats_as_nested_dict=stats.__getitem__
    )
    monkeypatch.setitem(sys.modules, "torch.cuda", fake)
    assert cuda.held() == [Held("GPU 0", 5, 9, 20)]
    fake.is_initialized = lambda: False
    assert cuda.held() == []


def test_memory_of_the_device_comes_from_mindspore(monkeypatch):
    statistics = {"total_allocated_memory": 1, "max_allocated_memory": 3, "total_reserved_memory": 8}
    runtime = SimpleNamespace(memory_stats=lambda: statistics)
    context = SimpleNamespace(get_context={"device_target": "Ascend", "device_id": 2}.__getitem__)
    monkeypatch.setitem(sys.modules, "mindspore.runtime", runtime)
    monkeypatch.setitem(sys.modules, "mindspore.context", context)
    assert runtime_memory.held() == [Held("Ascend 2", 1, 3, 8)]
    runtime.memory_stats = dict  # as MindSpore does on a CPU
    assert runtime_memory.held() == []


def test_a_look_between_two_steps_writes_three_counters():
    written, enabled = [], [True]
    recorder = SimpleNamespace(
        intern=lambda text: text, counter=lambda name, value: written.append((name, value)), now=lambda: 1
    )
    host = SimpleNamespace(asks=lambda _: enabled[0], steps=SimpleNamespace(recording=True), recorder=recorder)
    source = DeviceTensors(host, lambda: [Held("GPU 0", 5, 9, 20)])
    assert source.stepped(1)[0] > 1
    assert [value for _, value in written] == [5, 9, 20]
    assert written[0][0] == "memory of tensors on GPU 0, allocated"
    enabled[0] = False
    source.stepped(2)
    assert len(written) == 3


def test_the_memory_of_the_allocator_has_its_peaks():
    names = [f"memory of tensors on GPU 0, {what}" for what in ("allocated", "highest", "reserved")] + ["host memory"]
    looks = [(10, 5, 9, 20), (20, 6, 9, 20), (30, 4, 12, 24)]
    rows = [(1, 1, 3, 15, 77.0)]
    for time_ns, *values in looks:
        rows += [(1, 1, name, time_ns + name, float(value)) for name, value in enumerate(values)]
    device = SimpleNamespace(memory=pl.DataFrame(schema=tables.DEVICE_MEMORY))
    counters = pl.DataFrame(rows, schema=tables.COUNTERS, orient="row")
    recording = SimpleNamespace(device=device, counters=counters, names=pl.Series(names))
    reader.attach(recording)
    assert device.memory.select("component", "time_ns", "allocated", "reserved").rows() == [
        ("GPU 0", 9, 9, 20),
        ("GPU 0", 10, 5, 20),
        ("GPU 0", 20, 6, 20),
        ("GPU 0", 29, 12, 24),
        ("GPU 0", 30, 4, 24),
    ]
    recording.device = None
    reader.attach(recording)


def held(folder, sizes):
    """Return the summary of a run whose tensors on GPU 0 hold `sizes` MiB after its steps; None is no reading."""
    store = StoreBuilder(folder, framework={"name": "torch", "mode": "eager", "device": "GPU"})
    process = store.process()
    thread = process.thread()
    for number, size in enumerate(sizes):
        end = (number + 1) * 10 * MS
        thread.step(number, end - 10 * MS, end - 5000)
        for what, more in (("allocated", 0), ("highest", 50), ("reserved", 90)):
            if size is not None:
                thread.counter(f"memory of tensors on GPU 0, {what}", end, round((size + more) * MB))
                thread.counter(f"memory of tensors on GPU 1, {what}", end, 9000 * MB)
    process.anchor(STEPS * 11 * MS)
    path = store.write()
    engine.analyse([path])
    return json.loads((path / layout.SUMMARY).read_text())


def test_memory_of_a_gpu_that_grows_with_each_step_is_reported(tmp_path):
    """The memory is read after two of three steps; the optimizer takes 200 MiB in step 0."""
    found = held(tmp_path, [300 + step if step % 3 else None for step in range(STEPS)])
    growth = found["device_memory_growth"]
    assert growth["per_step"] == pytest.approx(MB)
    assert (growth["device"], growth["held"], growth["last"]) == ("GPU 0", (300 + STEPS - 1) * MB, STEPS - 1)
    assert found["memory_growth"] is None
    (advice,) = (item for item in found["advice"] if item["cause"] == "memory-growth")
    told = (
        "the memory of tensors on GPU 0 is 1.0 MiB more after each step; from step 31 to step 119 it grew by 88.0 MiB"
    )
    assert told in advice["evidence"]
    assert advice["evidence"].endswith("to 419.0 MiB"), "the module is unknown, so no module is mentioned"


@pytest.mark.parametrize(
    "size",
    [
        lambda step: 300 - 200 * (step == 0),
        lambda step: 300 + min(step, 30) * 2,
        lambda step: 300 + 40 * (step % 25 > 20),
        lambda step: 300 + (step % 40),
        lambda step: 300 + 0.005 * step,
    ],
    ids=["optimizer", "cache", "evaluation", "garbage", "little"],
)
def test_memory_of_a_gpu_that_settles_or_varies_is_no_growth(tmp_path, size):
    assert held(tmp_path, [size(step) for step in range(STEPS)])["device_memory_growth"] is None
