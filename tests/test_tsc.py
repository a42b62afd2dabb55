"""The clock that threads compute from the time-stamp counter agrees with the kernel's clock."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from recorders import make
from store_check import read_store

ROOT = Path(__file__).parent.parent
COMPILER = os.environ.get("CC", "cc")
UNRELIABLE = 77
#: ns by which a computed time may lie outside the two readings of the clock around it, see tests/native/tsc.c
MOST = 170


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Build the program of the native checks and return its path."""
    if shutil.which(COMPILER) is None:
        pytest.skip(f"no C compiler, {COMPILER}")
    built = tmp_path_factory.mktemp("tsc") / "tsc"
    sources = [ROOT / "tests" / "native" / "tsc.c", ROOT / "native" / "tsc.c"]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'native'}", "-pthread"]
    subprocess.run([COMPILER, *flags, *sources, "-o", built], check=True)
    return built


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(["follow", "1000"], id="threads stay with the clock while they compute it, fork children too"),
        pytest.param(["clock", "200"], id="threads read the clock when the counter is not to be trusted"),
        pytest.param(["made-up"], id="suspended, counter set back, counter and clock apart"),
    ],
)
def test_native(program, mode):
    done = subprocess.run([program, *mode], capture_output=True, text=True)
    if done.returncode == UNRELIABLE:
        pytest.skip("the time-stamp counter cannot be relied on here")
    assert done.returncode == 0, done.stderr


def test_times_of_records_are_the_kernels_clock_and_in_order(tmp_path):
    """The recorder's times agree with times that Python reads, from the first record on."""
    recorder = make("native")
    recorder.open(str(tmp_path))
    name, clock = recorder.intern("x"), time.CLOCK_MONOTONIC_RAW
    readings, around = [], []
    # only after some milliseconds, times are computed from the counter
    while len(readings) < 10_000 or readings[-1][2] - readings[0][0] < 40_000_000:
        before = time.clock_gettime_ns(clock)
        first = recorder.now()
        token = recorder.begin(name, 1)
        second = recorder.now()
        recorder.end(token)
        third = recorder.now()
        readings.append((first, second, third))
        around.append((before, time.clock_gettime_ns(clock)))
    recorder.close()
    spans = read_store(tmp_path).spans("x")
    for span, (first, second, third), (before, after) in zip(spans, readings, around, strict=True):
        assert first <= span.start <= second <= span.end <= third
        assert before - MOST <= first
        assert third <= after + MOST
