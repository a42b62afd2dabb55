"""The resident memory of the process is sampled between steps."""

import os
from types import SimpleNamespace

import polars as pl
import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.readers import store
from ms_profiler.job.samplers.resident import Resident

#: bytes that the planted job keeps in each step: 256 x 1024 floats
KEPT = 256 * 1024 * 4
#: bytes of a huge page; the system may put each kept tensor on a separate one
HUGE = 2 << 20


@pytest.mark.slow
def test_memory_growth_is_measured_between_steps(job):
    run = job(PROGRAMS / "planted_torch.py", "growth")
    assert run.code == 0, run.err
    recording = store.read(str(run.result))
    counters = recording.counters.with_columns(name=recording.names.gather(recording.counters["name"]))
    held = counters.filter(pl.col("name") == "host memory")["value"]
    assert held.len() >= 8
    steps = run.summary["steps"]["count"]
    # the first sample comes after the first step, the last one some steps before the end
    assert KEPT * steps / 2 < held[-1] - held[0] < 1.5 * HUGE * steps
    leak = run.summary["memory_growth"]
    assert 0.8 * KEPT < leak["per_step"] < 1.2 * HUGE
    (first, *_) = run.summary["advice"]
    assert first["cause"] == "memory-growth" and "MiB more after each step" in first["evidence"]


def test_a_fork_child_looks_at_its_own_memory():
    seen = []
    recorder = SimpleNamespace(intern=len, counter=lambda _, value: seen.append(value), now=lambda: 10**12)
    resident = Resident(SimpleNamespace(recorder=recorder, recordings=[], steps=SimpleNamespace(recording=True)))
    resident.start()
    resident.stepped(1)
    child = os.fork()
    if child == 0:
        kept = bytearray(64 << 20)
        kept[:: 1 << 12] = b"x" * (len(kept) >> 12)
        resident.stepped(2)
        os._exit(seen[1] - seen[0] > 48 << 20)
    _, status = os.waitpid(child, 0)
    resident.stop()
    assert os.waitstatus_to_exitcode(status) == 1
