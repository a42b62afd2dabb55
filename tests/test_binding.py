import json
from pathlib import Path

import pytest
from ms_profiler.analysis.metrics import measures
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.readers import store as readers_store
from ms_profiler.job.frameworks.mindspore import own_gradients
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import BACKWARD, FORWARD, RAW_NS, UPDATE, StoreBuilder


@pytest.fixture
def run(tmp_path):
    """Return a function that makes a run with one step of 1000 ns, with kernels (name, start) of 10 ns each."""
    store = StoreBuilder(tmp_path)
    process = store.process()
    thread = process.thread()

    class Run:
        def span(self, name, category, start, end):
            thread.span(name, category, start, end)

        def tape(self, time, nodes):
            """Add the nodes (operator, module) of the backward pass that begins at a time."""
            calls = [(number, number + 2, path) for number, (_, path) in enumerate(nodes)]
            made = [(number, name, 1, 0) for number, (name, _) in enumerate(nodes, 1)]
            content = {"time_ns": RAW_NS + time - 1, "nodes": made, "calls": calls}
            path = Path(layout.tape_path(layout.process_dir(str(store.path), 4242), 0))
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(content))

        def bind(self, *kernels, between=(0, 1100)):
            """Return {(name, start): (how it is bound, module, part, host span, launching span)} of the kernels."""
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


def test_name_of_a_compiled_kernel_says_its_part_and_not_its_module(run):
    run.span("graph Net", Category.GRAPH, 0, 1000)
    found = run.bind(
        (FORWARD, 100), (BACKWARD, 200), (UPDATE, 300), ("Expand/_Muls/Mul-op0", 400), ("Default/Add-op0", 500)
    )
    assert {name: what[:3] for (name, _), what in found.items()} == {
        # cells of one class share a compiled graph, with the name of the first cell, so a kernel's cell is unknown
        FORWARD: ("primitive", None, "forward"),
        BACKWARD: ("primitive", None, "backward"),
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
    # both kernels run while the host is already in Net.b
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
    # AddExt lies between two kernels of Net.a. SubExt lies between one of Net.a and one of Net.b, so any of Net.a, Net
    # and Net.b may have queued it. Neg was queued in Net.b, or later in Net.
    assert modules == {
        "MatMul": "Net.a",
        "AddExt": "Net.a",
        "BiasAdd": "Net.a",
        "SubExt": None,
        "ReLU": "Net.b",
        "Neg": None,
    }


def call_of_blocks(run, start):
    """Record a call of Net at `start`: Net.a launches MatMul and, without a span, AddExt; Net.b launches ReLU."""
    run.span("forward", Category.FORWARD, start, start + 300)
    run.span("Net", Category.MODULE, start, start + 300)
    run.span("Net.a", Category.MODULE, start + 10, start + 100)
    run.span("MatMul", Category.OP, start + 20, start + 25)
    run.span("Net.b", Category.MODULE, start + 110, start + 200)
    run.span("ReLU", Category.OP, start + 120, start + 125)


def test_kernels_of_an_equal_place_in_another_call_tell_the_module_of_a_kernel_that_started_late(run):
    call_of_blocks(run, 0)
    call_of_blocks(run, 400)
    # AddExt starts before the host leaves Net.a in the first call, and while it is in Net.b in the second call
    found = run.bind(
        ("MatMul", 30), ("AddExt", 60), ("ReLU", 130), ("MatMul", 430), ("AddExt", 530), ("ReLU", 540), ("Neg", 650)
    )
    assert found["AddExt", 60][:3] == ("module", "Net.a", "forward")
    assert found["AddExt", 530][:3] == ("order", "Net.a", "forward")
    assert found["Neg", 650][:3] == ("phase", None, "forward")  # no kernel has an equal place


@pytest.mark.parametrize(
    ("nodes", "bound"),
    [
        (["MatMul Net.a", "AddExt Net.a", "ReLU Net.b"], ("order", "Net.a")),
        (["MatMul Net.a", "AddExt Net", "ReLU Net.b"], ("order", "Net")),
        (["MatMul Net.a", "AddExt Net.b", "ReLU Net.b"], ("order", "Net.b")),
        # there are more nodes than kernels, so it is unknown which node has launched the kernel
        (["MatMul Net.a", "AddExt Net.a", "AddExt Net.b", "ReLU Net.b"], ("phase", None)),
        # the host was not in the node's module while the kernel was queued
        (["MatMul Net.a", "AddExt Net.c", "ReLU Net.b"], ("phase", None)),
    ],
)
def test_nodes_of_autograd_tell_the_module_of_a_kernel_between_two_modules(run, nodes, bound):
    call_of_blocks(run, 0)
    run.span("Net.c", Category.MODULE, 220, 290)
    run.span("backward", Category.BACKWARD, 400, 500)
    run.tape(400, [node.split() for node in nodes])
    found = run.bind(("MatMul", 220), ("AddExt", 230), ("ReLU", 240), ("Ones", 410), ("ReluGrad", 420))
    assert found["AddExt", 230][:2] == bound


def test_module_is_not_known_without_anything_that_bounds_it(run):
    run.span("Net", Category.MODULE, 100, 600)
    found = run.bind(("MatMul", 50), ("MatMul", 300), ("MatMul", 700))
    assert [what[:3] for what in found.values()] == [
        ("nothing", None, "unknown"),
        # the kernel may have been queued before Net began
        ("phase", None, "unknown"),
        ("nothing", None, "unknown"),
    ]


def test_gradients_mark_the_backward_pass_in_the_queue(run):
    run.span("Net", Category.MODULE, 0, 100)
    run.span("ReLU", Category.OP, 10, 20)
    run.span("backward", Category.BACKWARD, 200, 300)
    run.span("Momentum", Category.OPTIMIZER, 400, 900)
    found = run.bind(
        ("ReLU", 150),
        ("Zeros", 230),  # may still belong to the forward pass
        ("Ones", 240),  # the first kernel of the backward pass
        ("ReluGrad", 250),
        ("MatMul", 350),
        ("BiasAddGrad", 450),  # runs while the host is in the optimizer
        ("Tile", 460),
        ("Default/ApplyMomentum-op0", 500),
        ("Default/Mul-op0", 510),
        ("Default/ApplyMomentum-op1", 520),
    )
    assert {name: what[2] for (name, _), what in found.items()} == {
        "ReLU": "forward",
        "Zeros": "unknown",
        "Ones": "backward",
        "ReluGrad": "backward",
        "MatMul": "backward",
        "BiasAddGrad": "backward",
        "Tile": "unknown",
        "Default/ApplyMomentum-op0": "optimizer",
        "Default/Mul-op0": "optimizer",
        "Default/ApplyMomentum-op1": "optimizer",
    }


def test_recomputation_is_no_backward_pass(run):
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


def test_kernels_between_two_steps_find_the_spans_that_queued_them(run):
    run.span("MatMul", Category.OP, 20, 30)
    run.span("backward", Category.BACKWARD, 200, 300)
    # an evaluation after the step
    run.span("Net", Category.MODULE, 1200, 1400)
    run.span("Net.a", Category.MODULE, 1210, 1290)
    run.span("MatMul", Category.OP, 1220, 1230)
    run.span("Net.b", Category.MODULE, 1300, 1390)
    run.span("MatMul", Category.OP, 1320, 1330)
    # the window has more kernels than spans, because no span queued the MatMul of the backward pass
    found = run.bind(("MatMul", 40), ("Ones", 210), ("MatMul", 250), ("MatMul", 1500), ("MatMul", 1510))
    assert [found["MatMul", start][:2] for start in (1500, 1510)] == [("module", "Net.a"), ("module", "Net.b")]


def test_functions_are_known_by_the_primitives_they_call(run):
    run.span("Net", Category.MODULE, 0, 500)
    run.span("mul_", Category.OP, 10, 20)
    run.span("sum", Category.OP, 30, 40)
    run.span("AllReduce@world", Category.COMMUNICATION, 50, 60)
    found = run.bind(("Mul", 100), ("SumExt", 120), ("AllReduce", 140))
    assert [what[4] for what in found.values()] == ["mul_", "sum", "AllReduce@world"]


def test_kernel_of_an_exchange_belongs_to_its_call_and_not_to_the_operator_within_the_call(run):
    for start in (50, 70):
        run.span("AllReduce@world", Category.COMMUNICATION, start, start + 10)
        run.span("AllReduce", Category.OP, start + 1, start + 9)
    found = run.bind(("AllReduce", 140), ("AllReduce", 200))
    assert [what[4] for what in found.values()] == ["AllReduce@world"] * 2


@pytest.fixture
def trained(run):
    """Return a function that binds kernels of the backward pass, from 200 to 400, of a network with two layers."""
    run.span("forward", Category.FORWARD, 0, 150)
    run.span("Net", Category.MODULE, 5, 140)
    for name, start in (("Net.a", 10), ("Net.b", 60)):
        run.span(name, Category.MODULE, start, start + 40)
        for place, primitive in enumerate(("MatMul", "BiasAdd", "ReLU")):
            run.span(primitive, Category.OP, start + 5 + 10 * place, start + 7 + 10 * place)
    run.span("backward", Category.BACKWARD, 200, 400)
    run.span("Momentum", Category.OPTIMIZER, 500, 900)
    layers = [("MatMul", "Default/BiasAdd-op0", "ReLU"), ("MatMul", "Default/BiasAdd-op1", "ReLU")]
    forward = [(name, 20 + 20 * place) for place, name in enumerate([*layers[0], *layers[1]])]
    gradients = ["ReluGrad", "Default/BiasAddGrad-op0", "MatMul", "MatMul"]

    def bind(*backward, after=()):
        found = run.bind(*forward, *((name, 210 + 5 * place) for place, name in enumerate(backward)), *after)
        return {key: what for key, what in found.items() if key[1] >= 200}

    bind.gradients = gradients
    return bind


def test_backward_kernels_are_bound_by_order(trained):
    found = trained("Ones", *trained.gradients, "Add", *trained.gradients[:-1])
    assert [what[:3] for what in found.values()] == [
        ("phase", None, "backward"),  # belongs to no operator
        *[("order", "Net.b", "backward")] * 4,
        ("order", "Net", "backward"),  # belongs to one of the two layers
        *[("order", "Net.a", "backward")] * 3,
    ]


def test_backward_passes_that_contradict_themselves_are_bound_to_their_phase(trained):
    found = trained("Ones", *["ReluGrad"] * 3, "Mul")
    assert {what[:3] for what in found.values()} == {("phase", None, "backward")}


def test_kernels_of_the_scripts_own_gradient_are_not_bound_by_their_type(run):
    run.span("Net", Category.MODULE, 0, 100)
    for name, primitive, start in (("Net.a", "ReLU", 10), ("Net.b", "Mul", 40), ("Net.c", "Tanh", 70)):
        run.span(name, Category.MODULE, start, start + 20)
        run.span(primitive, Category.OP, start + 5, start + 10)
    run.span(own_gradients.NAMES[1], Category.BACKWARD, 200, 300)
    found = run.bind(("ReLU", 20), ("Mul", 50), ("Tanh", 80), ("TanhGrad", 210), ("Mul", 220), ("ReluGrad", 230))
    assert [what[:2] for key, what in found.items() if key[1] > 200] == [
        ("order", "Net.c"),
        ("order", "Net"),
        ("order", "Net.a"),
    ]


def test_gradients_of_gradients_are_bound_to_their_phase(run):
    run.span("forward", Category.FORWARD, 0, 250)
    run.span("Net", Category.MODULE, 10, 40)
    run.span("ReLU", Category.OP, 15, 20)
    run.span("backward", Category.BACKWARD, 100, 150)
    run.span("Loss", Category.MODULE, 200, 240)
    run.span("Tanh", Category.OP, 210, 220)
    run.span("backward", Category.BACKWARD, 300, 400)
    found = run.bind(("ReLU", 30), ("ReluGrad", 110), ("Tanh", 225), ("TanhGrad", 310), ("Mul", 320))
    assert [what[:2] for what in found.values()] == [
        ("module", "Net"),
        ("order", "Net"),
        ("module", "Loss"),
        ("phase", None),
        ("phase", None),
    ]


def test_gradient_kernels_that_the_script_calls_are_of_the_forward_pass(run):
    run.span("Net", Category.MODULE, 0, 100)
    run.span("ReluGrad", Category.OP, 10, 20)
    run.span("backward", Category.BACKWARD, 200, 300)
    assert run.bind(("ReluGrad", 30))["ReluGrad", 30][:3] == ("module", "Net", "forward")


def test_kernels_of_an_optimizer_are_bound_to_it(trained):
    updates = [("Default/ApplyMomentum-op0", 600), ("Default/Mul-op0", 610), ("Default/ApplyMomentum-op1", 620)]
    found = trained("ReluGrad", after=updates)
    assert [what[:3] for key, what in found.items() if key[1] >= 600] == [("module", "Momentum", "optimizer")] * 3
