"""The native recorder's own features work: direct functions, a helper thread, and a gate that a fork resets."""

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from ms_profiler import _columns, _native
from ms_profiler.job.recorder.native import NativeRecorder
from ms_profiler.store.format import HEADER, SEGMENT_CONTROL
from recorders import make, poll, run_program
from store_check import read_store

NATIVE = Path(__file__).parent.parent / "native"


@pytest.fixture(params=["native", "native-written"])
def recorder(request):
    """Return a recorder that is closed after the test, even if the test fails."""
    recorder = make(request.param)
    yield recorder
    recorder.close()


def helpers():
    """Return the ids of the helper threads of this process."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text().strip() == "ms-profiler":
                found.append(int(task.name))
        except FileNotFoundError:
            continue
    return found


def event_sizes(folder):
    """Return the sizes of the segments with events in bytes, sorted.

    The segments of the control stream do not count, because they also have strings that earlier tests interned.
    """
    sizes = []
    for path in folder.iterdir():
        header = path.read_bytes()[: HEADER.size]
        if len(header) == HEADER.size and not HEADER.unpack(header)[4] & SEGMENT_CONTROL:
            sizes.append(path.stat().st_size)
    return sorted(sizes)


def test_hot_functions_are_called_without_a_detour():
    recorder = NativeRecorder()
    for name in ("begin", "end", "instant", "counter", "record", "intern", "now", "pause", "fine", "anchor"):
        assert isinstance(getattr(recorder, name), types.BuiltinFunctionType), name
        assert getattr(recorder, name) is getattr(_native, name)


@pytest.mark.parametrize("module", [_native, _columns], ids=lambda module: module.__name__)
def test_the_stub_has_the_functions_of_the_module(module):
    name = module.__name__.rpartition(".")[2]
    stub = Path(module.__spec__.origin).with_name(f"{name}.pyi")
    if not stub.exists():
        stub = NATIVE.parent / "agent" / "ms_profiler" / f"{name}.pyi"
    declared = {line.split("(")[0][4:] for line in stub.read_text().splitlines() if line.startswith("def ")}
    functions = {name for name, value in vars(module).items() if isinstance(value, types.BuiltinFunctionType)}
    assert functions == declared


def test_cffi_declares_the_names_of_the_headers():
    declared = set()
    for header in NATIVE.rglob("*.h"):
        for part in header.read_text().split("/* cffi:begin */")[1:]:
            declared |= set(re.findall(r"\b(msp_\w+(?=\()|(?<=#define )MSP_\w+)", part.split("/* cffi:end */")[0]))
    assert declared == set(dir(_native.lib))


def test_the_helper_lives_as_long_as_the_session(recorder, tmp_path):
    assert helpers() == []
    recorder.open(str(tmp_path))
    recorder.instant(recorder.intern("x"), 1)
    # With two files, the helper runs its own code; before that, a new thread has all signals blocked.
    poll(lambda: len(event_sizes(tmp_path)) == 2)
    (helper,) = helpers()
    status = Path(f"/proc/self/task/{helper}/status").read_text()
    (blocked,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigBlk"))
    # the helper blocks all signals except KILL, STOP, the two that libc reserves, and SIGBUS for a page of a lost file
    assert bin(int(blocked, 16)).count("1") >= 59
    recorder.close()
    poll(lambda: helpers() == [])


def test_the_helper_has_descriptors_of_its_own(recorder, tmp_path):
    """The helper holds no descriptor of the job, because the job's pipes would stay open.

    The job cannot close the helper's.
    """
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) < (5, 9):
        pytest.skip("CLOSE_RANGE_UNSHARE came with Linux 5.9")
    ends = os.pipe()
    recorder.open(str(tmp_path))
    (helper,) = helpers()
    poll(lambda: os.listdir(f"/proc/self/task/{helper}/fd") == [])
    os.close(ends[1])
    assert os.read(ends[0], 1) == b"", "the other end is closed"
    os.close(ends[0])


def test_the_helper_has_the_next_segment_ready(recorder, tmp_path):
    recorder.open(str(tmp_path), first_slots=64)
    recorder.instant(recorder.intern("x"), 1)
    poll(lambda: event_sizes(tmp_path) == [64 * 32 + 128, 128 * 32 + 128])  # the segment in use and the spare one
    recorder.close()
    assert read_store(tmp_path).capacities == [64], "what was not used is removed"


@pytest.mark.slow
def test_the_helper_writes_anchors_while_nothing_happens(recorder, tmp_path):
    """The helper writes an anchor every five seconds, which shows if the clock is set during the run."""
    recorder.open(str(tmp_path))

    def two():
        try:
            return len(read_store(tmp_path, killed=True).anchors) >= 2
        except AssertionError:  # the recorder was writing just now
            return False

    poll(two)
    recorder.close()
    first, second, *_, last = read_store(tmp_path).anchors
    assert second[0] - first[0] > 4e9
    assert last[0] > second[0]


def test_a_fork_past_all_handlers_is_harmless(tmp_path):
    if os.uname().release.split(".")[0] < "5":
        pytest.skip("MADV_WIPEONFORK came with Linux 4.14")
    pid = int(run_program("recorder_bare_fork.py", tmp_path))
    (record,) = read_store(tmp_path, pid).records
    assert record.arg == 1


def test_it_needs_nothing_but_libc():
    (line,) = (
        subprocess.run([sys.executable, "-c", SONAMES], capture_output=True, text=True, check=True)
        .stdout.strip()
        .splitlines()
    )
    assert set(line.split()) <= {"libc.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


#: program that prints which further libraries a bare process has mapped after it has loaded the extensions
SONAMES = """
import os, sys, _cffi_backend
def loaded():
    with open("/proc/self/maps") as maps:
        return {line.split()[-1] for line in maps if ".so" in line}
before = loaded()
from ms_profiler import _columns, _native
print("libc.so.6", *(os.path.basename(path) for path in loaded() - before if "/ms_profiler/" not in path))
"""


@pytest.mark.parametrize("program", sorted((Path(__file__).parent / "native").glob("*.c")), ids=lambda path: path.stem)
def test_programs_of_the_sanitizers_fit_the_sources(program):
    """`make sanitize` builds and runs these programs. This test finds declarations that changed since."""
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{NATIVE}"]
    done = subprocess.run(["cc", *flags, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
