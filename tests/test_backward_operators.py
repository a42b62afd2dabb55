"""A backward kernel belongs to the module whose gradient it computes: by autograd's number, by order, or to none."""

import importlib.util
import re
from dataclasses import replace

import polars as pl
import pytest
from ms_profiler.analysis.metrics import backward_operators
from ms_profiler.analysis.metrics.host_operators import AROUND_NODE
from ms_profiler.analysis.metrics.measures import measure
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import store as reader, tapes
from ms_profiler.analysis.streams.nesting import nest
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder

US = 1000
TORCH = {"name": "torch", "version": "2.13.0", "mode": "eager", "device": "NVIDIA H200"}


class Pass:
    """Write a forward and a backward pass of 10 ms on two threads; each operator takes 100 us and launches a kernel."""

    def __init__(self, main, autograd, start, correlation):
        self.main, self.autograd, self.start, self.correlation = main, autograd, start, correlation

    def _launch(self, thread, name, at):
        self.correlation += 1
        thread.launch(name, at + 50 * US, at + 60 * US, 10 * US, self.correlation)

    def run(self, forward, backward):
        """Write the operators and their gradients, and return the last correlation id.

        Args:
            forward: (name, module, autograd's number or 0) of each operator, such as ("aten::mm", "Net.a", 7).
            backward: (name, autograd's number or 0) of each gradient.
        """
        for place, (name, module, number) in enumerate(forward):
            at = self.start + place * MS // 4
            if module:
                self.main.span(module, Category.MODULE, at, at + 200 * US)
            self.main.span(name, Category.OP, at + 10 * US, at + 110 * US, arg=2 * (number + 1) if number else 0)
            self._launch(self.main, f"{name} at {place}", at)
        self.main.span("backward", Category.BACKWARD, self.start + 5 * MS, self.start + 9 * MS)
        for place, (name, number) in enumerate(backward):
            at = self.start + 5 * MS + (place + 1) * MS // 4
            self.autograd.span(name, Category.OP, at, at + 150 * US, arg=2 * (number + 1) + 1 if number else 0)
            self.autograd.span("aten::mm", Category.OP, at + 10 * US, at + 110 * US)
            self._launch(self.autograd, f"{name} at {place}", at)
        return self.correlation


@pytest.fixture
def bound(tmp_path):
    """Return a function that runs one pass in each step, and returns (module, binding) of each backward kernel."""

    def bound(*passes, more=None):
        store = StoreBuilder(tmp_path, framework=TORCH)
        process = store.process()
        main, autograd = process.thread(), process.thread(2, "autograd", 4300)
        correlation = 0
        for number, (forward, backward) in enumerate(passes):
            start = (50 + 10 * number) * MS
            correlation = Pass(main, autograd, start, correlation).run(forward, backward)
            if more is not None:
                more(main, start)
            main.step(number, start, start + 10 * MS)
        measures = measure(reader.read(str(store.write())))
        stream, table = measures.stream, measures.stream.table.sort("start_ns")
        names = stream.names["full_name"].gather(table["kernel"])
        modules = stream.texts.gather(table["module"])
        found = zip(names, modules, table["bound"], strict=True)
        return [(module, how) for name, module, how in found if "Backward" in name]

    return bound


ACCUMULATES = f"{AROUND_NODE}: torch::autograd::AccumulateGrad"
EXACT, ORDER, NOTHING = 3, 4, 0
LAYERS = [("aten::addmm", "Net.a", 0), ("aten::relu", "Net.b", 0), ("aten::addmm", "Net.c", 0)]
GRADIENTS = [("AddmmBackward0", 0), ("ReluBackward0", 0), ("AddmmBackward0", 0)]


def test_the_last_operator_has_the_first_gradient(bound):
    assert bound((LAYERS, GRADIENTS)) == [("Net.c", ORDER), ("Net.b", ORDER), ("Net.a", ORDER)]


def test_a_backward_pass_belongs_to_the_forward_pass_before_it(bound):
    other = [("aten::addmm", "Net.x", 0), ("aten::relu", "Net.z", 0), ("aten::addmm", "Net.y", 0)]
    found = bound((LAYERS, GRADIENTS), (other, GRADIENTS))
    assert found[3:] == [("Net.y", ORDER), ("Net.z", ORDER), ("Net.x", ORDER)]


def test_autograds_numbers_come_before_the_order(bound):
    """Autograd's numbers decide, even if the order of operators contradicts them."""
    layers = [("aten::addmm", "Net.a", 7), ("aten::addmm", "Net.c", 8)]
    assert bound((layers, [("AddmmBackward0", 7), ("AddmmBackward0", 8)])) == [("Net.a", EXACT), ("Net.c", EXACT)]


def test_an_ambiguous_operator_belongs_to_the_module_around_its_candidates(bound):
    frozen = [("aten::addmm", "Net.x.frozen", 0), ("aten::relu", "Net.a", 0), *LAYERS[2:]]
    assert bound((frozen, GRADIENTS[:1])) == [("Net.c", ORDER)]
    more = [("aten::addmm", "Net", 0), *LAYERS, ("aten::addmm", "Net.frozen", 0)]
    assert bound((more, GRADIENTS)) == [("Net", ORDER), ("Net.b", ORDER), ("Net", ORDER)]


def test_operators_that_fit_no_order_are_unbound(bound):
    assert bound((LAYERS, [*GRADIENTS, ("AddmmBackward0", 0)])) == [(None, NOTHING)] * 4
    assert bound((LAYERS, [("TanhBackward0", 0), *GRADIENTS]))[0] == (None, NOTHING)


def test_operators_of_the_optimizer_have_no_gradient(bound):
    def more(main, start):
        main.span("SGD.step", Category.OPTIMIZER, start + 9 * MS, start + 10 * MS)
        main.span("aten::addmm", Category.OP, start + 9 * MS + US, start + 9 * MS + 2 * US)

    found = bound((LAYERS, GRADIENTS), (LAYERS, GRADIENTS), more=more)
    assert found == [("Net.c", ORDER), ("Net.b", ORDER), ("Net.a", ORDER)] * 2


def test_an_operator_inside_one_of_its_name_is_not_another_one(bound):
    """`convolution` calls `_convolution`.

    In-place operators and a script's own functions count like other operators.
    """

    def more(main, start):
        main.span("aten::_convolution", Category.OP, start + 20 * US, start + 30 * US)

    layers = [("aten::convolution", "Net.a", 0), ("aten::add_", "Net.b", 0), ("Doubled", "Net.c", 0)]
    gradients = [("DoubledBackward", 0), ("AddBackward0", 0), ("ConvolutionBackward0", 0)]
    assert bound((layers, gradients), more=more) == [("Net.c", ORDER), ("Net.b", ORDER), ("Net.a", ORDER)]


def test_an_operator_outside_of_modules_has_none(bound):
    assert bound(([("aten::addmm", "", 0)], [("AddmmBackward0", 0)])) == [(None, NOTHING)]


def networks():
    """Return networks with branches, shared weights, and parts that need no gradient, with their inputs."""
    import torch
    from torch import nn

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
            self.norm, self.last = nn.BatchNorm2d(8), nn.Linear(8, 4)

        def forward(self, x):
            x = torch.relu(self.norm(self.first(x)))
            return self.last((x + torch.relu(self.second(x))).mean((2, 3)))

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            a = self.layer(x)
            b = self.layer(a.tanh())
            return (a * b).sigmoid() + self.layer(b).sigmoid()

    frozen = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    frozen[0].requires_grad_(False)
    return [
        (nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(8, 8), nn.ReLU()))), torch.randn(4, 8), 12),
        (Branches(), torch.randn(2, 3, 8, 8), 8),
        (Shared(), torch.randn(4, 8), 10),
        (frozen, torch.randn(4, 8), 0),
    ]


def kineto(network, batch):
    """Yield Kineto's records of a forward and a backward pass.

    A record is (thread, name, category, start in ns, end in ns, autograd's number, whether it is a gradient).
    """
    import torch

    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with profiler:
        loss = network(batch).square().mean()
        with torch.profiler.record_function("backward"):
            loss.backward()
    for event in profiler.profiler.kineto_results.events():
        start, name = event.start_ns(), event.name()
        category = Category.BACKWARD if name == "backward" else Category.OP
        gradient = bool(re.fullmatch(r"autograd::engine::evaluate_function: \w+Backward\d+", name))
        yield event.start_thread_id(), name, category, start, start + event.duration_ns(), event.sequence_nr(), gradient


def test_threads_that_train_in_parallel_have_their_own_nodes():
    """Two threads have the same operators and numbers at nearly the same time, and a tape of one of them.

    Autograd's thread of a device runs a node while both have a pass, and one while only the second has a pass.
    """
    names = ["A", "B", "aten::addmm", f"{AROUND_NODE}: AddmmBackward0", "backward", "C", ACCUMULATES]
    rows = [
        (thread, kind, category, start + offset, end + offset, arg)
        for thread, module, offset in ((1, 0, 0), (2, 1, 5))
        for kind, category, start, end, arg in (
            (module, Category.MODULE, 0, 100, 0),
            (2, Category.OP, 10, 90, 2 * 8 if thread == 1 else 0),
            (4, Category.BACKWARD, 200, 300, 0),
            (3, Category.OP, 210, 290, 2 * 8 + 1 if thread == 1 else 0),
        )
    ]
    rows += [(3, 6, Category.OP, 250, 255, 0), (3, 6, Category.OP, 301, 303, 0)]
    table = [
        (1, thread, kind, int(category), 0, False, start, end, arg) for thread, kind, category, start, end, arg in rows
    ]
    spans = nest(pl.DataFrame(table, tables.UNNESTED, orient="row")).select(tables.SPANS.names()).with_row_index("row")
    tape = tapes.Tape(150, (tapes.Node("AddmmBackward0", 2, 0, "C"),), threads=frozenset([2]))
    for known, second in (((), "B"), ([tape], "C"), ([replace(tape, threads=frozenset())], "B")):
        found = backward_operators.nodes(spans, pl.Series(names), known)
        assert found.select("thread", "start_ns", "began").rows() == [
            (1, 210, 1),
            (2, 215, 2),
            (3, 250, 3),
            (3, 301, 2),
        ]
        assert found["module"].to_list()[:3] == ["A", second, None]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
@pytest.mark.parametrize("number", range(4))
def test_the_order_agrees_with_autograds_numbers(number):
    """Each operator is in its own module, which is named after the operator's number."""
    network, batch, at_least = networks()[number]
    events = list(kineto(network, batch))
    made = {event[5]: event for event in sorted(events, key=lambda event: event[3]) if "Backward" not in event[1]}
    events += [
        (thread, f"number {made_by}", Category.MODULE, start, end, 0, False)
        for made_by, (thread, _, _, start, end, *_) in made.items()
        if made_by >= 0
    ]
    names = list(dict.fromkeys(["", *(event[1] for event in events)]))
    rows = [(1, event[0], names.index(event[1]), int(event[2]), 0, False, event[3], event[4], 0) for event in events]
    spans = nest(pl.DataFrame(rows, tables.UNNESTED, orient="row")).select(tables.SPANS.names()).with_row_index("row")
    found = backward_operators.nodes(spans, pl.Series(names)).drop_nulls("module")
    numbers_of = {event[3]: f"number {event[5]}" for event in events if event[6]}
    known = [
        (row["module"], numbers_of[row["start_ns"]])
        for row in found.iter_rows(named=True)
        if row["start_ns"] in numbers_of
    ]
    assert len(known) >= at_least
    assert all(module == number for module, number in known)
