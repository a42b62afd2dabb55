"""Modules have the parameters that the framework counts, and the operations that the framework's own counter finds."""

import importlib.util
import json
import subprocess
import sys

import polars as pl
import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.catalogue import query
from ms_profiler.analysis.metrics import flops, parameters
from ms_profiler.analysis.metrics.measures import measure
from ms_profiler.analysis.metrics.module_work import UNBOUND
from ms_profiler.analysis.readers import store as reader
from ms_profiler.analysis.readers.networks import parse
from ms_profiler.job.frameworks import trees
from ms_profiler.job.frameworks.networks import Networks, Titles
from ms_profiler.job.frameworks.torch.modules import PARAMETERS, TABLE, gradients, sizes
from store_builder import FORWARD, compiled

TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")


@pytest.mark.slow
@TORCH
def test_parameters_and_operations_of_two_networks_of_one_class(job, tmp_path):
    file = tmp_path / "truth"
    run = job(
        PROGRAMS / "torch_networks.py", str(file), options={"record_shapes": True}, env={"MS_PROFILER_RAISE": "1"}
    )
    assert run.code == 0, run.err
    truth = json.loads(file.read_text())
    rows = {row["module"]: row for row in run.summary["module_tree"]["rows"] if row["module"].startswith("Net")}
    assert rows, run.summary["module_tree"]
    for path, row in rows.items():
        assert [row["parameters"], row["parameter_bytes"]] == truth["parameters"][path], path
    for name, (forward, _) in truth["flops"].items():
        assert rows[name]["forward_flops"] == forward, name
        assert rows[name]["backward_flops"] is None, "a convolution's backward pass may leave out a gradient"
        assert rows[f"{name}.up"]["backward_flops"] == rows[f"{name}.up"]["forward_flops"], (
            "its input needs no gradient"
        )
    assert "aten::convolution_backward" in run.summary["module_tree"]["absent"]["flops"]
    table = query.ask([str(run.result)], "select module, parameters, parameter_bytes, forward_flops from modules").table
    assert dict(table.select("module", "parameters").rows())["Net#2"] == truth["parameters"]["Net#2"][0]
    page = subprocess.run(
        [sys.executable, "-m", "ms_profiler", "summary", "--all", str(run.result)],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "160"},
    ).stdout
    assert "forward FLOPs" in page and "parameters" in page


TRACED = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
model.register_parameter("sparse", nn.Parameter(torch.eye(3).to_sparse()))
print(torch.jit.trace(model, torch.ones(2, 4)).graph)
for _ in range(4):
    model(torch.ones(2, 4)).sum().backward()
"""


@pytest.mark.slow
@TORCH
def test_a_network_may_be_traced_first(job):
    bare, run = job(TRACED, profile=False), job(TRACED, env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out) == (bare.code, bare.out) and bare.code == 0, run.err
    assert "graph(" in run.out and not any("failed" in line for line in run.lines), run.lines
    rows = {row["module"]: row for row in run.summary["module_tree"]["rows"]}
    assert (rows["Sequential.0"]["parameters"], rows["Sequential.0"]["parameter_bytes"]) == (40, 160)
    assert rows["Sequential"]["parameters"] is None, "PyTorch does not tell the size of a sparse tensor"


@TORCH
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_modules_have_their_parameters():
    import torch
    from torch import nn

    scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 3, bias=False))))
    root = nn.Sequential(scripted, nn.Linear(3, 1))
    described = Networks(None, TABLE, PARAMETERS, sizes)._described(root)
    found = parse(json.dumps({"title": "Net", **described}).encode())
    numbers = {path: found.parameters(found.find(path.split("."))) for path in ("0", "0.0", "0.1", "0.1.0", "1")}
    assert numbers == {"0": (64, 256), "0.0": (40, 160), "0.1": (24, 96), "0.1.0": (24, 96), "1": (4, 16)}
    assert found.parameters(0) == (68, 272)
    assert gradients(root) == 272


@TORCH
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_and_traced_modules_have_the_name_of_the_class_they_were_made_from():
    import torch
    from torch import nn

    class Encoder(nn.Sequential):
        pass

    plain = Encoder(nn.Linear(4, 8), nn.ReLU())
    root = nn.Sequential(torch.jit.script(plain), torch.jit.trace(plain, torch.ones(2, 4)))
    assert [trees.class_name(item) for _, item in trees.walk(root, TABLE)] == [
        "Sequential",
        *("Encoder", "Linear", "ReLU"),
        *("Encoder", "Linear", "ReLU"),
    ]
    titles = Titles()
    assert [titles.of(item, True) for item in root] == ["Encoder", "Encoder#2"]


def network(title, *sizes):
    modules = [
        ["Net", [], {"a": 1, "b": 2}],
        ["Linear", [0, 1], {}],
        ["Wrapper", [], {"_orig_mod": 3}],
        ["Linear", [1], {}],
    ]
    return parse(json.dumps({"title": title, "parameters": sizes, "modules": modules}).encode())


def test_a_module_whose_name_is_no_unicode_is_read():
    network = parse(b'{"title": "", "parameters": [[2, 8]], "modules": [["N", [], {"a\\udcff": 1}], ["L", [0], {}]]}')
    assert network.find(["a?"]) == 1 and network.parameters(1) == (2, 8)


def test_a_shared_parameter_counts_once():
    table, why = parameters.of(["Net", "Net.a", "Net.b", "Net.c", "Adam"], [network("Net", [6, 24], [2, 8])])
    assert table.rows() == [
        ("Net", 8, 32),
        ("Net.a", 8, 32),
        ("Net.b", 2, 8),
        ("Net.c", None, None),
        ("Adam", None, None),
    ]
    assert why == ""


def test_uncertain_parameters_are_absent_with_the_reason():
    other = network("Net", [7, 28], [2, 8])
    table, why = parameters.of(["Net", "Net.b"], [network("Net", [6, 24], [2, 8]), other])
    assert table.rows() == [("Net", None, None), ("Net.b", 2, 8)] and why == parameters.SEVERAL
    table, why = parameters.of(["Net", "Net.b"], [network("Net", None, [2, 8])])
    assert table.rows() == [("Net", None, None), ("Net.b", 2, 8)] and why == parameters.OWN_CLASSES
    table, why = parameters.of(["Net"], [])
    assert table.rows() == [("Net", None, None)] and why == parameters.NOT_KEPT


@pytest.mark.parametrize(
    "change",
    [{"modules": []}, {"modules": [["Net", [3], {}]]}, {"modules": [["Net", [], {"a": 9}]]}, {"parameters": 1}],
)
def test_a_damaged_network_is_refused(change):
    network_text = {"title": "Net", "parameters": [[6, 24]], "modules": [["Net", [0], {}]]}
    parse(json.dumps(network_text).encode())
    with pytest.raises((ValueError, TypeError)):
        parse(json.dumps(network_text | change).encode())


@pytest.mark.parametrize(
    ("kind", "shapes", "expected"),
    [
        ("MatMul", "32,2048;10,2048;;", 2 * 32 * 2048 * 10),
        ("MatMul", "32,10;32,2048;;", 2 * 32 * 2048 * 10),
        ("BatchMatMul", "8,4,6,5;8,4,5,7;;", 2 * 32 * 6 * 5 * 7),
        ("MatMul", "16,16;16,16", 2 * 16**3),
        ("MatMul", "32,64;64,32;;", None),  # the product may be summed over either size
        ("Conv2D", "32,16,16,16;32,16,3,3", 2 * 32 * 32 * 8 * 8 * 16 * 9),
        ("Conv2DBackpropInput", "32,32,8,8;32,16,3,3;4", 2 * 32 * 32 * 8 * 8 * 16 * 9),
        ("Conv2DBackpropFilter", "32,32,8,8;32,16,16,16;4", 2 * 32 * 32 * 8 * 8 * 16 * 9),
        ("LSTM", "4,5,6", None),
    ],
)
def test_operations_of_kernels(kind, shapes, expected):
    layer = [
        ("net", "Conv2D", "32,16,16,16;32,16,3,3"),
        ("net", "Conv2DBackpropInput", "32,32,8,8;32,16,3,3;4"),
        ("net", "Conv2DBackpropFilter", "32,32,8,8;32,16,16,16;4"),
        ("net", "ReLU", "32,16,16,16"),
    ]
    found = flops.of_kernels(dict.fromkeys([*layer, ("net", kind, shapes)]))
    assert found["net", kind, shapes] == expected
    assert ("net", "ReLU", "32,16,16,16") not in found


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        ("aten::addmm", "32;4,8;8,32;;", 2 * 4 * 8 * 32),
        ("aten::bmm", "3,4,8;3,8,5;", 2 * 3 * 4 * 8 * 5),
        ("aten::mv", "4,8;8;", 2 * 4 * 8),
        ("aten::convolution", "2,3,8,8;6,3,3,3;6;;;;;;", None),  # padding and strides are not known
        ("mylib::product", "4,8;8,32;", None),
    ],
)
def test_operations_of_operators(name, shapes, expected):
    assert flops.counted(name)
    assert flops.of_operators([(name, shapes)])[name, shapes] == expected


def test_operators_with_negligible_computing_do_not_count():
    assert not any(
        map(flops.counted, ("aten::relu", "AddmmBackward0", "autograd::engine::evaluate_function: X", "c10d::x"))
    )


@pytest.mark.parametrize("known", [True, False])
def test_operations_of_a_pass_whose_kernels_have_no_known_module_are_unknown(tmp_path, known):
    """The forward kernel of the layer lacks its module, as kernels of a primitive that MindSpore expands."""
    store = compiled(tmp_path)
    for files in store.processes[0].windows.values():
        for name, content in files.items():
            files[name] = content if known else content.replace(FORWARD, "Expand/_Dense/MatMul-op0")
    measures = measure(reader.read(str(store.write())))
    tree, absent = measures.module_facts
    (layer,) = tree.filter(pl.col("module") == "network._backbone.fc").to_dicts()
    each = 2 * 4 * 8 * 8
    assert (layer["forward_flops"], layer["backward_flops"]) == (each if known else None, each)
    assert tree["forward_flops"].is_null().all() != known, "the modules around it are unknown with it"
    assert absent["flops"] == ("" if known else f"{UNBOUND} MatMul")
