"""Ranges that a library pushes through NVTX become operators, by NVTX's interface for injected libraries."""

import glob
import json
import os
import subprocess
import sys
import types

import polars as pl
import pytest
from conftest import environment
from fakes_built import FAKES
from ms_profiler.analysis.metrics import operands
from ms_profiler.analysis.readers import store
from ms_profiler.job import recorder
from ms_profiler.job.frameworks.torch import nvtx
from ms_profiler.job.recorder.native import NativeRecorder
from ms_profiler.store.format import Category

HEADERS = sorted(glob.glob("/usr/local/cuda*/include/nvtx3/nvToolsExt.h"))
PUSH = """
import ctypes, json, os, sys
from ms_profiler.job.recorder.native import PATH, NativeRecorder
from ms_profiler.store.format import Category
client, folder, names = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
os.environ["NVTX_INJECTION64_PATH"] = PATH
library = ctypes.CDLL(client)
recorder = NativeRecorder()
recorder.open(folder)
library.client_push(b"not ours yet")
library.client_pop()
print(recorder.take_ranges())
outer = recorder.begin(recorder.intern("python"), int(Category.OTHER))
for name in names:
    if name is None:
        library.client_pop()
    else:
        library.client_push(name.encode())
recorder.end(outer)
recorder.close()
loaded = [line.split()[-1] for line in open("/proc/self/maps") if "_native" in line]
print(len(set(loaded)))
"""
NAMES = [
    *("region of a user", "aten::linear, seq = 4, op_id = 7, sizes = [[6, 8], [16, 8], [16]]"),
    *("aten::addmm, seq = 5, op_id = 8, sizes = [[16], [6, 8], [8, 16], [], []], input_op_ids = [(7,0)]", None, None),
    *("autograd::engine::evaluate_function: AddmmBackward0, op_id = 9", "AddmmBackward0, seq = 5, op_id = 10"),
    *(None, None, "aten::zeros, op_id = 12, sizes = []", None, None),
    *("aten::cut, sizes = [[4, 8], [", None),
]


def built(folder, name, *options):
    """Compile the client under the name of a library, and return its path."""
    path = folder / name
    command = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *options]
    subprocess.run([*command, FAKES / "nvtx_client.c", "-o", path, "-ldl"], check=True)
    return path


def pushed(client, folder, names):
    """Run a process that pushes a range for each name and pops one for each None.

    Returns:
        The printed lines, (name, depth, tie, shapes) of each operator, and the recording.
    """
    process = folder / "FRAMEWORK" / "process_1"
    process.mkdir(parents=True)
    words = [sys.executable, "-c", PUSH, str(client), str(process), json.dumps(names)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    recording = store.read(str(folder))
    spans = recording.spans.filter(pl.col("category") == Category.OP)
    shapes = recording.names.gather(operands.shapes(spans))
    ties = spans.select(operands.TIE).to_series()
    rows = zip(recording.names.gather(spans["name"]), spans["depth"], ties, shapes, strict=True)
    return done.stdout.split(), list(rows), recording


EXPECTED = [
    ("region of a user", 0, 0, None),
    ("aten::linear", 1, 10, "6,8;16,8;16;"),
    ("aten::addmm", 2, 12, "16;6,8;8,16;;;"),
    ("autograd::engine::evaluate_function: AddmmBackward0", 1, 0, None),
    ("AddmmBackward0", 2, 13, None),
    ("aten::zeros", 1, 0, None),
    ("aten::cut", 0, 0, None),
]


@pytest.mark.parametrize("header", ["", *HEADERS[-1:]])
def test_ranges_are_recorded_as_operators(tmp_path, header):
    options = ["-DREAL_NVTX", f"-I{os.path.dirname(os.path.dirname(header))}"] if header else []
    client = built(tmp_path, "libtorch_cuda.so", *options)
    printed, rows, recording = pushed(client, tmp_path, NAMES)
    assert printed == ["True", "1"]  # the process has one copy of the extension
    assert rows == EXPECTED
    assert recording.names.gather(recording.spans["name"]).to_list()[0] == "python"


def test_work_of_torch_distributed_is_communication_and_a_moment_where_it_ends_elsewhere(tmp_path):
    client = built(tmp_path, "libtorch_cuda.so")
    names = ["gloo:all_reduce, op_id = 1, sizes = [[4]]", "aten::add", None, None]
    names += ["gloo:send", "mpi:bcast", "aten::mul", None]
    _, rows, recording = pushed(client, tmp_path, names)
    assert rows == [("aten::add", 0, 0, None), ("aten::mul", 0, 0, None)]
    exchanges = recording.spans.filter(pl.col("category") == Category.COMMUNICATION)
    assert recording.names.gather(exchanges["name"]).to_list() == ["gloo:all_reduce"]
    assert exchanges["arg"].to_list() == [0]  # the number of bytes is unknown
    assert recording.names.gather(recording.instants["name"]).to_list() == ["gloo:send", "mpi:bcast"]


def test_other_libraries_are_not_served(tmp_path):
    client = built(tmp_path, "libnccl.so.2")
    printed, rows, _ = pushed(client, tmp_path, ["aten::add", None])
    assert printed[0] == "False"
    assert rows == []


class NoRanges(NativeRecorder):
    """A recorder that cannot record ranges."""

    @staticmethod
    def take_ranges():
        return False


def build(monkeypatch, cuda):
    torch = types.SimpleNamespace(version=types.SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "torch", torch)


def test_a_build_without_cuda_has_none(monkeypatch):
    build(monkeypatch, None)
    assert nvtx.connect(NoRanges()) == "this build of PyTorch has no NVTX"


def test_another_injected_library_is_not_replaced(monkeypatch):
    build(monkeypatch, "12.8")
    monkeypatch.setenv(nvtx.VARIABLE, "/nsys.so")
    assert nvtx.connect(NoRanges()) == "NVTX_INJECTION64_PATH names another library"
    assert os.environ[nvtx.VARIABLE] == "/nsys.so"


@pytest.mark.parametrize("fails", [False, True])
def test_the_variable_is_set_for_one_range_alone(monkeypatch, fails):
    build(monkeypatch, "12.8")
    monkeypatch.delenv(nvtx.VARIABLE, raising=False)
    seen = []

    def push():
        seen.append(os.environ[nvtx.VARIABLE])
        if fails:
            raise RuntimeError("CUDA used in profiler but not enabled.\nmore")

    monkeypatch.setattr(nvtx, "_push", push)
    why = nvtx.connect(NoRanges())
    assert why == (
        "NVTX does not record (CUDA used in profiler but not enabled.)"
        if fails
        else "PyTorch's NVTX requested no injection"
    )
    assert seen == [recorder.collector()]
    assert nvtx.VARIABLE not in os.environ
