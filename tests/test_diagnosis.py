"""The summary of stores that are written by hand says why their steps take as long as they do."""

import json
import random

import polars as pl
import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import bounds, device_bounds
from ms_profiler.analysis.metrics.growth import kernels_since
from ms_profiler.analysis.model.tables import Window
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder, compiled, training


def summary(store):
    path = store.write()
    engine.analyse([path])
    return json.loads((path / layout.SUMMARY).read_text())


def test_time_of_a_compiled_graph_is_computing_and_launching(tmp_path):
    found = summary(compiled(tmp_path))
    # In a step of 10 ms, data take 1 ms. Kernels run from 2 to 4, from 4 to 7 and from 8 to 8.5 ms. The rest is
    # launching.
    assert found["bounds"]["shares"] == pytest.approx({"computing": 0.55, "data": 0.1, "launch": 0.35}, abs=1e-3)
    assert found["bounds"]["launched"] == {"what": "kernels", "per_step": 3.0, "median_us": 2000.0}
    first = found["critical_path"]["steps"][0]
    assert {name: value for name, value in first.items() if name != "number"} == pytest.approx(
        {"computing_ms": 5.5, "data_ms": 1.0, "launch_ms": 3.5}, abs=1e-3
    )
    assert found["advice"] == []


def test_a_backward_pass_waits_for_the_kernels_that_it_launches_unseen(tmp_path):
    """In 10 ms the host queues kernels for 1 ms. Then `backward` blocks until the kernels of both passes have run."""
    store = StoreBuilder(tmp_path, framework={"name": "mindspore", "mode": "pynative", "device": "CPU"})
    process = store.process()
    thread = process.thread()
    ran = []
    for number in range(5):
        start = number * 10 * MS
        thread.span("forward", Category.FORWARD, start, start + MS)
        thread.span("backward", Category.BACKWARD, start + MS, start + 9 * MS)
        thread.step(number, start, start + 10 * MS)
        for name, begin, length in (("Conv2D", 500_000, 3_500_000), ("Conv2DBackpropInput", 5 * MS, 4 * MS)):
            ran.append((f"Default/{name}-op0", start + begin, length, ""))
    thread.window(0, 0, 51 * MS, ran)
    process.anchor(60 * MS)
    path = summary(store)["critical_path"]["shares"]
    assert path["computing"] == pytest.approx(0.75, abs=0.01)
    assert path["launch"] == pytest.approx(0.25, abs=0.01)


def queueing(parent, each):
    """Build a run whose host queues 250 kernels in each step and waits for none of them; the kernels fill the step.

    Args:
        parent: the folder of the result.
        each: the time in ns from one launch to the next.
    """
    store = StoreBuilder(parent, framework={"name": "mindspore", "mode": "pynative", "device": "CPU"})
    process = store.process()
    thread = process.thread()
    ran = []
    for number in range(6):
        start = number * 10 * MS
        for place in range(250):
            at = start + place * each
            thread.span("Add", Category.OP, at, at + each // 2)
            ran.append(("Default/Add-op0", start + place * 39_000 + each // 2, 36_000, ""))
        thread.step(number, start, start + 10 * MS)
    thread.window(0, 0, 80 * MS, ran)
    process.anchor(90 * MS)
    return store


def test_a_host_that_never_waits_is_launch_bound(tmp_path):
    found = summary(queueing(tmp_path / "close", 39_000))
    assert found["bounds"]["shares"]["computing"] == pytest.approx(0.9, abs=0.01)
    assert found["critical_path"]["shares"]["launch"] > 0.9
    (advice,) = found["advice"]
    assert advice["cause"] == "launch-bound"
    assert "critical path" in advice["evidence"]
    # A host far ahead of its kernels may be waiting for room in the queue, which cannot be told from its own work.
    assert summary(queueing(tmp_path / "far", 4_000))["advice"] == []


def test_without_kernels_phases_give_the_computing_time(tmp_path):
    found = summary(training(tmp_path))
    # in a step, data take 3 ms, phases that compute 6.5 ms, and anything else 0.5 ms
    assert found["bounds"]["computing_is"] == "phases"
    assert found["bounds"]["shares"] == pytest.approx({"computing": 0.65, "data": 0.3, "unknown": 0.05})
    (advice,) = found["advice"]
    assert (advice["cause"], advice["lane"]) == ("input-bound", "MainThread")
    assert advice["step"] in range(1, 20)


def leaking(parent, kernels, each=2**23):
    """Build a run of 40 steps with `kernels` kernels each; the process holds `each` more bytes after each step."""
    store = StoreBuilder(parent)
    process = store.process()
    thread = process.thread()
    ran = []
    for number in range(40):
        start = number * 10 * MS
        thread.span("forward", Category.FORWARD, start, start + 9 * MS)
        ran += [(f"Default/Add-op{place}", start + 1000 * place, 500, "") for place in range(kernels)]
        thread.step(number, start, start + 10 * MS)
        thread.counter("host memory", start + 10 * MS + 1000, 1e8 + number * each)
    thread.window(0, 0, 401 * MS, ran)
    process.anchor(410 * MS)
    return store


@pytest.mark.slow
def test_memory_of_the_kernel_recorder_is_not_the_jobs(tmp_path):
    few, many = leaking(tmp_path / "few", 1), leaking(tmp_path / "many", 200)
    held = summary(few)["memory_growth"]
    assert held["per_step"] == pytest.approx(2**23 - 470, rel=0.00001)
    # the kernel recorder holds 470 bytes for each kernel
    assert summary(many)["memory_growth"]["per_step"] == pytest.approx(2**23 - 200 * 470, rel=0.001)
    # Growth by 2**19 bytes in each step is not reported, because the recorder may hold the inputs of steps.
    assert summary(leaking(tmp_path / "slowly", 1, each=2**19))["memory_growth"] is None


def windows_of(parent, lengths, held):
    """Build a run in pynative mode with a window of the kernel recorder for each number of steps in `lengths`.

    Args:
        parent: folder of the run.
        lengths: number of steps of each window.
        held: gives the megabytes that the process holds, from the number of the step, the age of its window in steps,
            and the largest age that any window has reached so far.
    """
    store = StoreBuilder(parent)
    process = store.process()
    thread = process.thread()
    number = most = 0
    for place, length in enumerate(lengths):
        begin = number * 10 * MS
        ran = []
        for age in range(1, length + 1):
            start = number * 10 * MS
            thread.span("forward", Category.FORWARD, start, start + 9 * MS)
            ran.append(("Default/Add-op1", start, 500, ""))
            thread.step(number, start, start + 10 * MS - 5000)
            most, number = max(most, age), number + 1
            thread.counter("host memory", start + 10 * MS - 3000, round(held(number, age, most) * 2**20))
        thread.window(place, begin, number * 10 * MS - 1000, ran)
    process.anchor(number * 10 * MS)
    return store


@pytest.mark.parametrize(
    ("lengths", "held", "per_step"),
    [
        # the job keeps 1 MiB of each step
        ([1, 32, 32, 32, 3], lambda number, age, most: 100 + number, 1),
        # the recorder keeps 1 MiB of each step; at the end of a window the process keeps this memory for the next one
        ([1, 32, 64, 32, 3], lambda number, age, most: 100 + most, None),
        # the same, and the memory goes back to the system
        ([1, 32, 32, 32, 3], lambda number, age, most: 100 + age, None),
        # as the first, but one window does not tell who keeps the memory
        ([1, 99], lambda number, age, most: 100 + number, None),
        # the job's caches take 40 MiB in the first step, then the recorder keeps 1 MiB of each step
        ([1, 99], lambda number, age, most: 100 + 40 * (number > 1) + age, None),
    ],
)
def test_a_leak_remains_when_the_kernel_recorder_is_emptied(tmp_path, lengths, held, per_step):
    growth = summary(windows_of(tmp_path, lengths, held))["memory_growth"]
    assert (growth and growth["per_step"]) == (per_step and pytest.approx(per_step * 2**20, rel=0.01))


@pytest.mark.parametrize("seed", range(5))
def test_kernels_are_counted_from_the_begin_of_the_window_around(seed):
    generator = random.Random(seed)
    times, starts = (sorted(generator.choices(range(300), k=80)) for _ in range(2))
    bounds = sorted((begin, begin + generator.randrange(40)) for begin in generator.choices(range(300), k=12))
    windows = [Window(1, place, "", begin, end, True, None) for place, (begin, end) in enumerate(bounds)]
    expected = [0] * len(times)
    for window in windows:
        for place, time in enumerate(times):
            if window.start_ns <= time < window.end_ns:
                expected[place] = sum(window.start_ns <= start < time for start in starts)
    assert kernels_since(pl.Series(times), windows, pl.Series(starts)).to_list() == expected


def test_without_windows_or_samples_no_kernels_are_counted():
    none = pl.Series(dtype=pl.Int64)
    assert kernels_since(pl.Series([5, 7]), [], pl.Series([1])).to_list() == [0, 0]
    assert kernels_since(none, [Window(1, 0, "", 0, 9, True, None)], none).to_list() == []


def test_a_hook_of_a_gradient_is_no_computing(tmp_path):
    """In 10 ms, autograd runs one node for 8 ms. Its operator takes 2 ms, and a hook sleeps or runs for 6 ms.

    The script takes 1 ms before and 1 ms after that.
    """
    store = StoreBuilder(tmp_path, framework={"name": "torch", "mode": "eager", "device": "CPU"})
    process = store.process()
    thread = process.thread()
    ran = 0
    for number in range(7):  # the first step does not count
        start, sleeps = number * 10 * MS, number % 2
        thread.span("backward", Category.BACKWARD, start, start + 9 * MS)
        name = "aten::mm" if sleeps else "autograd::engine::evaluate_function: MmBackward0"
        thread.span(name, Category.OP, start + MS, start + 9 * MS)
        thread.span("aten::mul", Category.OP, start + MS, start + 3 * MS)
        for at, before, since in ((3, 3, 3), (9, 3, 0 if sleeps else 6), (10, 9, 1)):
            ran += since * MS
            thread.look(start + at * MS, start + before * MS, ran, 0)
        thread.step(number, start, start + 10 * MS)
    process.anchor(71 * MS)
    shares = summary(store)["bounds"]["shares"]
    # the hook sleeps in every second step, and runs Python code in the others
    assert shares["computing"] == pytest.approx(0.2, abs=0.01)
    assert shares["blocked"] == pytest.approx(0.3, abs=0.01)
    assert shares["host"] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("Mine", "host"),
        ("MineBackward", "host"),
        ("Mine2Backward", "host"),
        ("MineBackward0", "computing"),
        ("torch::autograd::CppNode<Mine>", "computing"),
        ("aten::mm", "computing"),
    ],
)
def test_python_code_of_an_autograd_function_is_no_computing(tmp_path, name, part):
    """Each step computes for 4 ms, and is in a function of the script for 6 ms."""
    store = StoreBuilder(tmp_path, framework={"name": "torch", "device": "CPU"})
    thread = store.process().thread()
    for step in range(10):
        start = 10 * step * MS
        thread.step(step, start, start + 10 * MS)
        thread.span("backward", Category.BACKWARD, start, start + 10 * MS)
        thread.span("aten::mm", Category.OP, start, start + 4 * MS)
        thread.span(name, Category.OP, start + 4 * MS, start + 10 * MS)
        thread.span("aten::mul", Category.OP, start + 5 * MS, start + 5 * MS + 100_000)
        thread.look(start + 10 * MS, start + 5 * MS, 10 * (step + 1) * MS, 0)
    shares = engine.measured(str(store.write())).diagnosis.shares
    assert shares[part] == pytest.approx(0.99 if part == "computing" else 0.59, abs=0.02)


def test_time_between_operators_of_a_compiled_graph_is_computing(tmp_path):
    """In 10 ms, a graph takes 8 ms: a product 6 ms, and the fused kernels before and after it 2 ms."""
    store = StoreBuilder(tmp_path, framework={"name": "torch", "mode": "compiled", "device": "CPU"})
    process = store.process()
    thread = process.thread()
    for number in range(7):
        start = number * 10 * MS
        thread.span("forward", Category.FORWARD, start, start + 9 * MS)
        thread.span("## Call CompiledFxGraph fabc ##", Category.OP, start + MS, start + 9 * MS)
        thread.span("aten::mm", Category.OP, start + 2 * MS, start + 8 * MS)
        thread.step(number, start, start + 10 * MS)
    process.anchor(71 * MS)
    shares = summary(store)["bounds"]["shares"]
    assert shares["computing"] == pytest.approx(0.8, abs=0.001)
    assert shares["launch"] == pytest.approx(0.2, abs=0.001)  # the part of the forward pass outside of the graph


@pytest.mark.parametrize(("beside", "part"), [([(0, 100_000)], bounds.LAUNCH), ([], bounds.BLOCKED)])
def test_a_thread_that_sleeps_while_autograds_thread_launches_is_not_blocked(beside, part):
    def table(rows, **more):
        return pl.DataFrame(rows, schema={"start_ns": pl.Int64, "end_ns": pl.Int64}, orient="row").with_columns(**more)

    tasks = pl.DataFrame({"launch_ns": [10_000, 50_000, 90_000]})
    did = table([(0, 100_000)], part=pl.lit(bounds.BLOCKED)).select("part", "start_ns", "end_ns")
    found = device_bounds.host(did, table([(0, 100_000)]), tasks, table([]), table(beside), table([]))
    assert found.rows() == [(part, 0, 100_000)]
