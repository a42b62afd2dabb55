"""Run programs whose work is traced by the fake CUPTI or msPTI, and read their results."""

import json
import subprocess
import sys

import polars as pl
import pytest
from conftest import environment
from fakes_built import ascend_fakes, fakes  # noqa: F401
from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.columns.slots import Wanted
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.analysis.readers import slot_table
from ms_profiler.store import reader
from ms_profiler.store.device_format import Device
from ms_profiler.store.format import Kind

#: first lines of each program: they open a recorder
HEAD = """
import ctypes, json, os, signal, sys
from ms_profiler.job.recorder.native import NativeRecorder
from ms_profiler.job.recorder.tracing import Kinds, Outcome
from ms_profiler.store.device_format import Source
recorder = NativeRecorder()
recorder.open(sys.argv[1])
def counts():
    found = tracing.counts()
    return {name: getattr(found, name) for name in found.__dataclass_fields__}
"""
#: the next lines of a program with CUPTI: functions that load the fake libraries and begin to record
CUPTI = """
tracing = recorder.tracing(Source.CUPTI)
def driver():
    library = ctypes.CDLL("libcuda.so.1")
    library.cuInit(0)
    return library
def cupti():
    library = ctypes.CDLL("libcupti.so.12")
    library.fake_launch.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int]
    library.fake_now.restype = ctypes.c_uint64
    return library
def traced():
    driver()
    assert tracing.attach("libcupti.so.12") == (Outcome.DONE, "")
    assert tracing.record(Kinds.BASIC) == (Outcome.DONE, "")
    return cupti()
"""
MSPTI = """
tracing = recorder.tracing(Source.MSPTI)
U32, U64, TEXT = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_char_p
def driver():
    return ctypes.CDLL("libascendcl.so")
def mspti():
    library = ctypes.CDLL("libmspti.so")
    library.fake_kernel.argtypes = [TEXT, TEXT, U32, U64, U64]
    library.fake_exchange.argtypes = [TEXT, TEXT, U64, U32, U64, U64]
    library.fake_copy.argtypes = [U32, U64, U32, U64]
    library.fake_marker.argtypes = [U32, U64, TEXT, TEXT, ctypes.c_int]
    library.fake_emit.argtypes = [TEXT, ctypes.c_size_t]
    library.fake_count_from.argtypes = [U64]
    library.fake_jump.argtypes = [ctypes.c_int64]
    for function in (library.fake_now, library.fake_kernel, library.fake_busy_until, library.fake_dropped):
        function.restype = U64
    return library
def traced(kinds=Kinds.BASIC):
    driver()
    assert tracing.attach("libmspti.so") == (Outcome.DONE, "")
    assert tracing.record(kinds)[0] is Outcome.DONE
    return mspti()
"""


@pytest.fixture
def run(fakes, tmp_path):  # noqa: F811
    """Return a function that runs a program with the fakes; it returns the JSON output, the fakes' calls, the store."""
    return runner(HEAD + CUPTI, fakes, "FAKE_CUPTI", tmp_path)


@pytest.fixture
def run_ascend(ascend_fakes, tmp_path):  # noqa: F811
    """Return a function like `run` for the fake libraries of CANN."""
    return runner(HEAD + MSPTI, ascend_fakes, "FAKE_MSPTI", tmp_path)


def runner(head, folder, variable, tmp_path):
    """Return a function that runs a head and a program.

    Args:
        head: the lines with which each program begins.
        folder: the folder of the fake libraries.
        variable: the variable with the words that make the fake fail.
        tmp_path: the directory for stores and logs.
    """

    def run(program, *, words="", expect=0, **variables):
        store, log = tmp_path / f"process_{len(list(tmp_path.iterdir())) + 1}", tmp_path / "log"
        store.mkdir()
        own = {"LD_LIBRARY_PATH": str(folder), variable: words, f"{variable}_LOG": str(log), "PYTHONPATH": ""}
        env = environment(**own | variables)
        done = subprocess.run(
            [sys.executable, "-c", head + program, str(store)],
            env=env,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == expect, done.stderr
        assert done.stderr == ""
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        calls = [(call, int(argument)) for _, call, argument in lines]
        return json.loads(done.stdout) if done.stdout else None, calls, store

    return run


ANY = Wanted(pl.Series([], dtype=pl.UInt32), 0, Clock(((0, 0),), 0), 0, (0, 0), (0, 0), True)


def records(store):
    """Return the raw device slots of a store in order: (kind, type, name, all columns)."""
    counts = reader.ReadCounts()
    process = reader.read_process(str(store), counts)
    rows = []
    for batch in slot_table.batches(process, counts):
        for row in COLUMNS.coarse([segment.piece for segment in batch], ANY, 1).table.iter_rows(named=True):
            if row["kind"] in (Kind.DEVICE, Kind.DEVICE_PLACE):
                text = process.strings.get(row["id"], "")
                rows.append((Kind(row["kind"]), Device(row["category"]), text, row))
    return rows
