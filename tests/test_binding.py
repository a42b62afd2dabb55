import random

import polars as pl
import pytest
from ms_profiler.analysis import measures
from ms_profiler.analysis.metrics import binding
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.readers import store as readers_store
from ms_profiler.store.format import Category
from store_builder import BACKWARD, FORWARD, UPDATE, StoreBuilder


@pytest.fixture
def run(tmp_path):
    """A run of one step of 1000 ns; (name, start) are its kernels, of 10 ns each."""
    store = StoreBuilder(tmp_path)
    process = store.process()
    thread = process.thread()

    class Run:
        def span(self, name, category, start, end):
            thread.span(name, category, start, end)

        def bind(self, *kernels, between=(0, 1100)):
            """Return {(name, start): (bound, module, part, host, launch)}."""
            thread.step(0, *between)
            thread.window(0, -10, 2000, [(name, start, 10, "") for name, start in kernels])
            process.anchor(3000)
            recording = readers_store.read(str(store.write()))
            stream = measures.measure(recording).stream
            assert recording.counts.damaged_kernels == 0
            first = recording.clock.epoch_ns(5_000_000_000_000)
            spans = recording.spans
            texts = [*stream.texts, None]

            def name_of(row):
                return None if row is None else recording.names[spans["name"][row]]

            return {
                (stream.names["full_name"][row["kernel"]], row["start_ns"] - first): (
                    Bound(row["bound"]).name.lower(),
                    None if row["module"] is None else texts[row["module"]],
                    Part(row["part"]).name.lower(),
                    name_of(row["host"]),
                    name_of(row["launch"]),
                )
                for row in stream.table.iter_rows(named=True)
            }

    return Run()


def test_name_of_a_compiled_kernel_says_its_module(run):
    run.span("graph Net", Category.GRAPH, 0, 1000)
    found = run.bind(
        (FORWARD, 100), (BACKWARD, 200), (UPDATE, 300), ("Expand/_Muls/Mul-op0", 400), ("Default/Add-op0", 500)
    )
    assert {name: what[:3] for (name, _), what in found.items()} == {
        FORWARD: ("module", "network._backbone.fc", "forward"),
        BACKWARD: ("module", "network._backbone.fc", "backward"),
        UPDATE: ("module", "optimizer", "optimizer"),
        "Expand/_Muls/Mul-op0": ("primitive", None, "unknown"),
        "Default/Add-op0": ("primitive", None, "unknown"),
    }
    assert {what[3] for what in found.values()} == {"graph Net"}


def test_module_is_that_of_the_span_that_queued_the_kernel_and_not_where_the_host_has_come_to(run):
    run.span("Net", Category.MODULE, 0, 500)
    run.span("Net.a", Category.MODULE, 10, 100)
    run.span("MatMul", Category.OP, 20, 30)
    run.span("Net.b", Category.MODULE, 110, 200)
    run.span("ReLU", Category.OP, 120, 130)
    # both run while the host is in Net.b already
    found = run.bind(("MatMul", 150), ("ReLU", 170))
    assert found["MatMul", 150] == ("module", "Net.a", "forward", "Net.b", "MatMul")
    assert found["ReLU", 170] == ("module", "Net.b", "forward", "Net.b", "ReLU")


def test_kernels_without_a_span_are_bounded_by_those_around_them(run):
    run.span("Net", Category.MODULE, 0, 600)
    run.span("Net.a", Category.MODULE, 10, 100)
    run.span("MatMul", Category.OP, 20, 30)
    run.span("BiasAdd", Category.OP, 40, 50)
    run.span("Net.b", Category.MODULE, 110, 200)
    run.span("ReLU", Category.OP, 120, 130)
    found = run.bind(("MatMul", 300), ("AddExt", 320), ("BiasAdd", 340), ("SubExt", 360), ("ReLU", 380), ("Neg", 400))
    modules = {name: what[1] for (name, _), what in found.items()}
    # between two of Net.a; between Net.a and Net.b; after Net.b had begun, and before the host left Net
    assert modules == {
        "MatMul": "Net.a",
        "AddExt": "Net.a",
        "BiasAdd": "Net.a",
        "SubExt": "Net",
        "ReLU": "Net.b",
        "Neg": "Net",
    }


def test_module_is_not_known_without_anything_that_bounds_it(run):
    run.span("Net", Category.MODULE, 100, 600)
    found = run.bind(("MatMul", 50), ("MatMul", 300), ("MatMul", 700))
    assert [what[:3] for what in found.values()] == [
        ("nothing", None, "unknown"),
        # it may have been queued before Net began
        ("phase", None, "unknown"),
        ("nothing", None, "unknown"),
    ]


def test_gradients_tell_where_the_backward_pass_is_in_the_queue(run):
    run.span("Net", Category.MODULE, 0, 100)
    run.span("ReLU", Category.OP, 10, 20)
    run.span("backward", Category.BACKWARD, 200, 300)
    run.span("Momentum", Category.OPTIMIZER, 400, 900)
    found = run.bind(
        ("ReLU", 150),
        ("Ones", 240),  # may be of the forward pass still
        ("ReluGrad", 250),
        ("MatMul", 350),
        ("BiasAddGrad", 450),  # runs while the host is at the optimizer
        ("Tile", 460),
        ("Default/ApplyMomentum-op0", 500),
        ("Default/Mul-op0", 510),
        ("Default/ApplyMomentum-op1", 520),
    )
    assert {name: what[2] for (name, _), what in found.items()} == {
        "ReLU": "forward",
        "Ones": "unknown",
        "ReluGrad": "backward",
        "MatMul": "backward",
        "BiasAddGrad": "backward",
        "Tile": "unknown",
        "Default/ApplyMomentum-op0": "optimizer",
        "Default/Mul-op0": "optimizer",
        "Default/ApplyMomentum-op1": "optimizer",
    }


def test_what_is_computed_once_more_is_no_backward_pass(run):
    run.span("backward", Category.BACKWARD, 0, 500)
    run.span("recompute Block", Category.BACKWARD, 100, 200)
    run.span("ReLU", Category.OP, 120, 130)
    found = run.bind(("ReluGrad", 50), ("ReLU", 140), ("ReluGrad", 300))
    assert [what[2] for what in found.values()] == ["backward", "recompute", "backward"]


def test_kernels_of_a_later_window_were_queued_in_it(tmp_path):
    store = StoreBuilder(tmp_path)
    process = store.process()
    thread = process.thread()
    thread.span("Net", Category.MODULE, 0, 100)
    thread.span("ReLU", Category.OP, 10, 20)
    thread.window(0, -10, 150, [("ReLU", 30, 10, "")])
    thread.span("Net", Category.MODULE, 200, 300)
    thread.window(1, 201, 400, [("Neg", 250, 10, "")])
    thread.step(0, 0, 400)
    process.anchor(1000)
    table = measures.measure(readers_store.read(str(store.write()))).stream.table
    assert table["bound"].to_list() == [Bound.MODULE, Bound.MODULE]


def queue(rows, *columns):
    kinds = {"step": pl.UInt32, "key": pl.UInt32, "lane": pl.UInt32, "start_ns": pl.Int64, "row": pl.UInt32}
    return pl.DataFrame(rows, schema={name: kinds.get(name, pl.Boolean) for name in columns}, orient="row")


def launched(kernels, operators):
    """Kernels are (step, key, start) or (step, key, start, backward), operators (step, key, start), from row 100 on."""
    return binding.launches(
        queue(
            [(step, key, 0, start, bool(rest)) for step, key, start, *rest in kernels],
            "step",
            "key",
            "lane",
            "start_ns",
            "backward",
        ),
        queue([(*operator, 100 + row) for row, operator in enumerate(operators)], "step", "key", "start_ns", "row"),
    ).to_list()


@pytest.mark.parametrize(
    ("kernels", "operators", "expected"),
    [
        ([(0, 1, 20), (0, 1, 40)], [(0, 1, 10), (0, 1, 30)], [100, 101]),
        # the host ran ahead
        ([(0, 1, 50), (0, 2, 60), (0, 1, 70)], [(0, 1, 10), (0, 2, 20), (0, 1, 30)], [100, 101, 102]),
        # as many before the backward pass, more after it
        ([(0, 1, 20), (0, 9, 30, True), (0, 1, 40)], [(0, 1, 10)], [100, None, None]),
        # as many, all after it: what follows the backward pass has spans, too
        ([(0, 9, 10, True), (0, 1, 40)], [(0, 1, 35)], [None, 100]),
        # not as many: which is which is not known
        ([(0, 1, 20), (0, 1, 30), (0, 2, 40)], [(0, 1, 10), (0, 2, 35)], [None, None, 101]),
        # as many, and one starts before its span
        ([(0, 1, 20), (0, 1, 22), (0, 2, 40)], [(0, 1, 10), (0, 1, 25), (0, 2, 35)], [None, None, 102]),
        # each step for itself; outside of steps nothing
        (
            [(0, 1, 20), (1, 1, 120), (1, 1, 130), (None, 1, 200)],
            [(0, 1, 10), (1, 1, 110), (None, 1, 190)],
            [100, None, None, None],
        ),
        # the order of the queue would be another
        ([(0, 1, 20), (0, 2, 30)], [(0, 1, 15), (0, 2, 10)], [None, None]),
        ([], [(0, 1, 10)], []),
        ([(0, 1, 10)], [], [None]),
        ([(0, None, 10)], [(0, 1, 5)], [None]),
    ],
)
def test_kernels_find_the_span_that_queued_them(kernels, operators, expected):
    assert launched(kernels, operators) == expected


@pytest.mark.parametrize("seed", range(6))
def test_a_queue_at_random_is_found_again_or_not_known(seed):
    generator = random.Random(seed)
    operators, kernels, truth = [], [], []
    now = ran = 0
    for _ in range(300):
        now += generator.randrange(1, 20)
        step, key = now // 500, generator.randrange(4)
        operators.append((step, key, now))
        if key == 3 and generator.random() < 0.5:
            continue  # this one starts no kernel
        ran = max(ran + 1, now + generator.randrange(30))
        kernels.append((ran // 500, key, ran))
        truth.append(99 + len(operators))
    found = launched(kernels, operators)
    assert all(row in (None, true) for row, true in zip(found, truth, strict=True))
    assert sum(row is not None for row in found) > len(found) // 5


def test_functions_are_known_by_the_primitives_they_call(run):
    run.span("Net", Category.MODULE, 0, 500)
    run.span("mul_", Category.OP, 10, 20)
    run.span("sum", Category.OP, 30, 40)
    run.span("AllReduce@world", Category.COMMUNICATION, 50, 60)
    found = run.bind(("Mul", 100), ("SumExt", 120), ("AllReduce", 140))
    assert [what[4] for what in found.values()] == ["mul_", "sum", "AllReduce@world"]
