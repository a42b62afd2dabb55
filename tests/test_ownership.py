"""Times of modules add up, and the summary names the heaviest module and the module that slows a step."""

import importlib.util
import json

import perfetto_reader
import polars as pl
import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.catalogue import query
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import callbacks, slow_steps
from ms_profiler.analysis.metrics.measures import measure
from ms_profiler.analysis.readers import store as reader
from ms_profiler.analysis.report import modules
from ms_profiler.analysis.writers import modules_summary
from ms_profiler.store.format import Category, Flag
from store_builder import MS, StoreBuilder, folder_of
from timeline import bounds, lanes

TORCH = {"name": "torch", "version": "2.13.0", "mode": "eager", "device": "CPU"}
PASSES = ("forward_ms", "backward_ms", "optimizer_ms")


@pytest.fixture(scope="module")
def heavy(launch):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs PyTorch")
    run = launch(PROGRAMS / "planted_networks.py", "heavy", "12")
    assert run.code == 0, run.err
    return run


def test_the_heaviest_module_is_named_with_its_main_operator(heavy):
    """The third of four similar blocks is 30 times as wide as the others."""
    summary = heavy.summary
    rows = {row["module"]: row for row in summary["module_tree"]["rows"]}
    assert max(rows.values(), key=lambda row: (row["depth"] == 2, row["total_ms"]))["module"] == "Blocks.blocks.2"
    heaviest = max(rows.values(), key=lambda row: row["self_ms"] if not row["optimizer_ms"] else 0)["module"]
    assert heaviest.startswith("Blocks.blocks.2")
    if summary["finding"]["kind"] in ("forward", "backward"):
        assert f"; {heaviest} takes " in summary["verdict"] and "aten::" in summary["verdict"]
        share = rows["Blocks.blocks.2"]["share"] * 100
        assert f"; Blocks.blocks.2 takes {share:.0f} % of the step, each similar module beside" in summary["verdict"]
    assert rows["Blocks.blocks.2.up"]["calls"] == summary["module_tree"]["steps"]
    assert rows["Blocks.blocks.2.up"]["backward_ms"] > 0 and rows["AdamW"]["backward_ms"] == 0
    # autograd's numbers tell the module of each node, except of the nodes that add to the gradients of parameters
    assert rows["Blocks"]["inferred_ms"] < 0.5 * rows["Blocks"]["backward_ms"]


def test_modules_add_up_to_the_steps(heavy):
    tree = heavy.summary["module_tree"]
    rows, around = tree["rows"], []
    for row in rows:
        assert sum(row[name] for name in PASSES) == pytest.approx(row["total_ms"], abs=1e-5)
        del around[row["depth"] :]
        if around:
            around[-1]["inside"] += row["total_ms"]
        row["inside"] = 0.0
        around.append(row)
    for row in rows:
        assert row["total_ms"] == pytest.approx(row["self_ms"] + row["inside"], abs=1e-4), row["module"]
    roots = sum(row["total_ms"] for row in rows if row["depth"] == 0)
    assert roots + tree["outside_ms"] == pytest.approx(tree["whole_ms"], abs=1e-4)
    assert 0 <= tree["outside_share"] < 0.5


def test_sql_has_them_step_by_step(heavy):
    text = """select s.step, s.dur, sum(m.self) as own, max(m.total) as most from steps s
        join module_steps m on m.step = s.step group by s.step, s.dur"""
    table = query.ask([str(heavy.result)], text).table
    assert table.height == 12 and (table["own"] <= table["dur"]).all() and (table["most"] <= table["own"]).all()
    whole = query.ask([str(heavy.result)], "select sum(self) as own from modules").table["own"][0]
    steps = query.ask([str(heavy.result)], "select sum(self) as own from module_steps").table["own"][0]
    assert 0 < whole <= steps


def loop(tmp_path, slow):
    """Build 20 steps of 10 ms: Net.a takes 2 ms, but `slow` ns in step 12, and Net.b takes 3 ms."""
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread, at = store.process().thread(), 50 * MS
    for number in range(20):
        length = slow if number == 12 else 2 * MS
        thread.span("Net", Category.MODULE, at, at + 4 * MS + length)
        thread.span("Net.a", Category.MODULE, at + MS // 2, at + MS // 2 + length)
        thread.span("Net.b", Category.MODULE, at + MS + length, at + 4 * MS + length)
        thread.span("SGD.step", Category.OPTIMIZER, at + 5 * MS + length, at + 6 * MS + length)
        thread.step(number, at, at + 8 * MS + length)
        at += 8 * MS + length
    return store.write()


@pytest.mark.parametrize(
    ("operators", "mostly"),
    [
        ({"aten::mm": 6}, ", mostly aten::mm of its forward pass."),
        ({"aten::mm": 4, "aten::add": 3}, ", 40 % of that in aten::mm of its forward pass."),
        ({"aten::mm": 3}, ", mostly outside of operators."),
    ],
)
def test_the_sentence_says_mostly_of_what_takes_most(tmp_path, operators, mostly):
    """A layer takes 10 ms of each step; operators take some of them, and Python code of a hook the rest."""
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread = store.process().thread()
    for number in range(8):
        at = (50 + 11 * number) * MS
        thread.span("Net", Category.MODULE, at, at + 10 * MS)
        begin = at
        for name, length in operators.items():
            thread.span(name, Category.OP, begin, begin + length * MS)
            begin += length * MS
        thread.step(number, at, at + 11 * MS)
    sentence = measure(reader.read(str(store.write()))).verdict
    assert sentence.endswith(f"; Net takes 91 % of the step{mostly}"), sentence


@pytest.mark.parametrize(
    ("lengths", "named"),
    [
        ((2, 2, 6, 2, 3), "; Net.blocks.2 takes 35 % of the step, each similar module beside it at most 18 %."),
        ((2, 2, 6, 2, 4), None),  # another one takes nearly as long
        ((2, 6), None),  # of two modules, it is unknown which one is unusual
        ((6, 6, 6, 6, 5), None),
        ((6, 6, 60, 6, 6), "; Net.blocks.2 takes 70 % of the step, each similar module beside it at most 7 %."),
    ],
)
def test_a_module_that_takes_far_longer_than_similar_ones_is_named(tmp_path, lengths, named):
    """A network of blocks of equal structure is followed by a head without inner modules, which takes long."""
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread, at = store.process().thread(), 50 * MS
    for number in range(8):
        begin = at
        for block, length in enumerate(lengths):
            thread.span(f"Net.blocks.{block}", Category.MODULE, at, at + length * MS)
            thread.span(f"Net.blocks.{block}.up", Category.MODULE, at, at + length * MS // 2)
            thread.span(f"Net.blocks.{block}.down", Category.MODULE, at + length * MS // 2, at + length * MS)
            at += length * MS
        thread.span("Net.blocks.9", Category.MODULE, at, at + MS)
        thread.span("Net", Category.FORWARD, begin, at + MS)
        thread.step(number, begin, at + 2 * MS)
        at += 2 * MS
    sentence = measure(reader.read(str(store.write()))).verdict
    assert ("similar module" in sentence) == (named is not None), sentence
    assert sentence.endswith(named or "."), sentence
    # in a network of equal layers, the heaviest one is so by chance
    alike = max(lengths) == 6 == lengths[0]
    assert ("; 9 other modules take about as long, 94 % together with it" in sentence) == alike, sentence


def like(together):
    return f"; 3 other modules take about as long, {together} % together with it"


MIX = "Net.layers.1.mix takes 17 % of the step, each other Net.layers.*.mix at most 3 %"


@pytest.mark.parametrize(
    ("mixes", "attention", "named"),
    [
        # no layer takes twice as long as each other one, but one of its inner modules does
        ((2, 12, 2), "attention", f"; {MIX}; Net.head takes 14 % of the step{like(51)}."),
        ((2, 3, 2), "attention", f"; Net.head takes 17 % of the step{like(58)}."),
        # the layers differ
        ((2, 12, 2), "other", f"; Net.head takes 14 % of the step{like(51)}."),
    ],
)
def test_a_module_that_takes_far_longer_than_in_other_blocks_is_named_before_a_smaller_one(
    tmp_path, mixes, attention, named
):
    """The head has more own time than each of the two inner modules of `mix`."""
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread, at = store.process().thread(), 50 * MS
    for number in range(8):
        begin = at

        def call(name, length):
            nonlocal at
            thread.span(f"Net.{name}", Category.MODULE, at, at + length * MS)
            at += length * MS

        for layer, length in enumerate(mixes):
            start = at
            call(f"layers.{layer}.{attention if layer == 1 else 'attention'}", 9 if layer == 0 else 8)
            middle = at
            call(f"layers.{layer}.mix.0", length // 2)
            call(f"layers.{layer}.mix.1", length - length // 2)
            thread.span(f"Net.layers.{layer}.mix", Category.MODULE, middle, at)
            thread.span(f"Net.layers.{layer}", Category.MODULE, start, at)
        call("head", 10)
        thread.span("Net", Category.FORWARD, begin, at)
        thread.step(number, begin, at + 18 * MS)
        at += 18 * MS
    sentence = measure(reader.read(str(store.write()))).verdict
    assert sentence.endswith(named), sentence


def slowest(measures):
    called = callbacks.by_step(measures.spans, measures.recording.names, measures.steps)
    return slow_steps.slowest(measures.ownership, measures.steady, measures.pieces, measures.steps.table, called)


def test_the_module_that_made_a_step_slow_is_named(tmp_path):
    measures = measure(reader.read(str(loop(tmp_path, 30 * MS))))
    found = slowest(measures)
    assert (found.number, found.module) == (12, "Net.a")
    assert found.longer_ns == found.module_ns == 28 * MS


def test_of_equal_steps_none_is_slow(tmp_path):
    path = loop(tmp_path, 2 * MS)
    measures = measure(reader.read(str(path)))
    assert slowest(measures) is None
    tree = measures.ownership.tree
    assert dict(tree.select("module", "self_ns").iter_rows()) == {
        # the first of the 20 steps does not count
        "Net": 19 * MS,
        "Net.a": 38 * MS,
        "Net.b": 57 * MS,
        "SGD": 19 * MS,
    }
    assert measures.ownership.outside_ns == 57 * MS


def queued(tmp_path):
    """Build 8 steps of 10 ms that each queue a kernel of 30 ms; only the last step waits for the kernels."""
    store = StoreBuilder(tmp_path, framework={"name": "mindspore", "version": "2.10.0", "mode": "pynative"})
    thread = store.process().thread()
    for number in range(8):
        at = number * 10 * MS
        thread.span("Net", Category.MODULE, at, at + 2 * MS)
        thread.span("MatMul", Category.OP, at + MS, at + MS + MS // 2)
        if number == 7:
            thread.span("Tensor.asnumpy", Category.SYNC, at + 3 * MS, 245 * MS)
        thread.step(number, at, at + 10 * MS if number < 7 else 246 * MS)
    thread.window(0, 0, 250 * MS, [("MatMul", (2 + 30 * number) * MS, 30 * MS, "") for number in range(8)])
    return store.write()


def test_a_step_that_waits_for_kernels_of_earlier_ones_says_so(tmp_path):
    measures = measure(reader.read(str(queued(tmp_path))))
    by_step = dict(measures.ownership.sums.group_by("step").agg(pl.col("self_ns").sum()).iter_rows())
    assert by_step == dict.fromkeys(range(8), 30 * MS), "kernels are of the steps that queued them"
    found = slowest(measures)
    assert (found.number, found.module, found.earlier, found.earlier_ns) == (7, "", (2, 6), 142 * MS)
    tree = modules_summary.summary(measures)
    assert modules.slow(tree) == [
        "step 7 took 166.0 ms longer than the median step; kernels that steps 2 to 6 had queued ran in it for 142.0 ms"
    ]


def test_a_step_that_waits_for_data_says_so(tmp_path):
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread, at = store.process().thread(), 50 * MS
    for number in range(8):
        waited = 40 * MS if number == 5 else MS
        thread.span("wait for DataLoader", Category.DATA, at, at + waited)
        thread.span("Net", Category.MODULE, at + waited, at + waited + 3 * MS)
        thread.step(number, at, at + waited + 4 * MS)
        at += waited + 4 * MS
    found = slowest(measure(reader.read(str(store.write()))))
    assert (found.number, found.module, found.phase, found.phase_ns) == (5, "", "data", 39 * MS)


@pytest.mark.parametrize(
    ("title", "category", "usual"),
    [("callback Log.step_end", Category.OTHER, 1), ("backward", Category.BACKWARD, 4)],
)
def test_a_callback_or_a_backward_pass_that_takes_longer_is_named_if_no_module_explains_it(
    tmp_path, title, category, usual
):
    """It takes 40 ms in step 5, where the module takes as long as always."""
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread, at = store.process().thread(), 50 * MS
    for number in range(8):
        begin, length = at + 3 * MS, (40 if number == 5 else usual) * MS
        thread.span("Net", Category.MODULE, at, begin)
        thread.span(title, category, begin, begin + length)
        thread.step(number, at, begin + length)
        at = begin + length
    found = slowest(measure(reader.read(str(store.write()))))
    assert (found.number, found.module, found.phase, found.phase_ns) == (5, "", title, (40 - usual) * MS)


def test_the_slowest_step_is_named_with_the_part_that_grew(tmp_path):
    """Step 5 waits 39 ms longer for data, but is shorter elsewhere.

    Step 0 is slower, but the first step does not count.
    """
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread, at = store.process().thread(), 50 * MS
    for number in range(8):
        waited = {0: 90 * MS, 5: 40 * MS}.get(number, MS)
        rest = 2 * MS if number == 5 else 12 * MS
        thread.span("wait for DataLoader", Category.DATA, at, at + waited)
        thread.span("Net", Category.MODULE, at + waited, at + waited + rest)
        thread.step(number, at, at + waited + rest)
        at += waited + rest
    path = store.write()
    engine.analyse([str(path)])
    summary = json.loads((path / "summary.json").read_text())
    assert modules.slow(summary["module_tree"]) == [
        "step 5 took 29.000 ms longer than the median step, all of it in waiting for data "
        "(+39.000 ms; the rest of the step was shorter than usual)",
        "step 0 took longer, but is left out here: it compiled, or was among the first",
    ]


def test_all_longer_steps_are_named_with_the_reason_why_they_are_left_out(tmp_path):
    """Seven steps compile, of which one takes no longer than the slowest other step; two steps are not sampled."""
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread, at = store.process().thread(), 50 * MS
    for number in range(40):
        compiled = number in (0, 2, 4, 6, 8, 10, 20)
        length = {5: 8, 20: 5, 30: 200, 33: 50}.get(number, 100 + number if compiled else 2) * MS
        if compiled:
            thread.span("compile", Category.COMPILE, at, at + length)
        thread.span("Net", Category.MODULE, at, at + length)
        thread.step(number, at, at + length, flags=int(Flag.COARSE) if number in (30, 33) else 0)
        at += length
    path = store.write()
    engine.analyse([str(path)])
    summary = json.loads((path / "summary.json").read_text())
    assert summary["module_tree"]["slow_step"]["step"] == 5
    assert modules.slow(summary["module_tree"])[1:] == [
        "steps 30 and 33 took longer, but are left out here: they were not recorded",
        "steps 0, 2, 4, 6, 8 and 10 took longer, but are left out here: they compiled, or were among the first",
    ]


def test_the_timelines_show_the_intervals_of_the_table(tmp_path):
    path = loop(tmp_path, 30 * MS)
    engine.analyse([path])
    measures = measure(reader.read(str(path)))
    tree = {row["module"]: row["total_ns"] for row in measures.ownership.tree.to_dicts()}
    first = measures.steady["start_ns"].min()
    events = json.loads((folder_of(path) / "trace_view.json").read_text())
    processes, threads = lanes(events)
    drawn = [event for event in events if event["ph"] == "X" and processes[event["pid"]] == "Modules"]
    sums = {}
    for event in drawn:
        begin, end = bounds(event)
        if begin < first:
            continue  # the timeline has all steps, the table only the steady ones
        named = event["args"].get("module", event["name"])
        assert named.endswith(event["name"])
        key = threads[event["pid"], event["tid"]], named
        sums[key] = sums.get(key, 0) + end - begin
    passes = {("Passes", "forward"): tree["Net"], ("Passes", "optimizer"): tree["SGD"]}
    modules = {(f"Modules of depth {name.count('.') + 1}", name): total for name, total in tree.items()}
    assert sums == passes | modules
    trace = perfetto_reader.read(folder_of(path) / "trace.pftrace")
    assert len([each for each in trace.slices if each.category == "owner"]) == len(drawn)
