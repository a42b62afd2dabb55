"""On a real GPU, the recorded kernels of a training loop are those that PyTorch's own profiler records.

The two profilers run one after the other, because CUPTI serves only one.
"""

import json
import subprocess
import sys
from collections import Counter, defaultdict

import pytest
from conftest import PROGRAMS, environment
from csv_rows import rows

pytestmark = pytest.mark.gpu
STEPS = 20
#: largest relative difference between the total kernel times of two runs
NOISE = 0.25


@pytest.fixture(scope="module", autouse=True)
def there_is_a_gpu():
    command = [sys.executable, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"]
    if subprocess.run(command, env=environment(), check=False).returncode:
        pytest.skip("PyTorch finds no NVIDIA GPU on this machine")


def run(folder, *words, program="gpu_job.py"):
    command = [sys.executable, PROGRAMS / program, *words]
    done = subprocess.run(command, env=environment(), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def by_stream(kernels):
    """Return the kernel names of each stream in order; the lists are sorted, because streams have other numbers."""
    found = defaultdict(list)
    for _, stream, name in sorted(kernels):
        found[stream].append(name)
    return sorted(found.values())


def launched(trace):
    """Return the kernels in a trace of PyTorch's own profiler, as its events."""
    return [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "kernel"]


def same(kernels, events):
    """Check that our kernels have the names of the trace's kernels and the same total time."""
    assert Counter(row["Name"] for row in kernels) == Counter(event["name"] for event in events)
    took = sum(float(row["Duration(us)"]) for row in kernels), sum(event["dur"] for event in events)
    assert abs(took[0] / took[1] - 1) < NOISE


def placed(kernels):
    return [(float(row["Start Time(us)"]), row["Stream ID"], row["Name"]) for row in kernels]


@pytest.mark.parametrize("mode", ["plain", "compile", "graph"])
def test_kernels_are_those_of_pytorchs_own_profiler(tmp_path, mode):
    trace = tmp_path / "theirs.json"
    printed = run(tmp_path, mode, str(STEPS), str(trace))
    assert run(tmp_path, mode, str(STEPS)) == printed
    events = launched(trace)
    theirs = [(event["ts"], event["args"]["stream"], event["name"]) for event in events]
    (result,) = (tmp_path / "own").glob("*_ascend_ms")
    kernels = rows(result, "kernel_details")
    same(kernels, events)
    assert by_stream(placed(kernels)) == by_stream(theirs)
    assert Counter(row["Step ID"] for row in kernels).keys() == {str(number) for number in range(STEPS)}


def test_without_a_word_the_variable_records_the_gpu(tmp_path):
    """Autograd runs the backward pass on its own thread; the kernels belong to operators of that thread."""
    options = {"start": True, "output_path": str(tmp_path / "data")}
    command = [sys.executable, PROGRAMS / "gpu_job.py", "plain", str(STEPS)]
    done = subprocess.run(command, env=environment(options), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (result,) = (tmp_path / "data").glob("*_ascend_ms")
    summary = json.loads((result / "summary.json").read_text())
    assert summary["device"]["form"] == "cupti" and summary["kernels"]["count"] > STEPS
    modules = Counter(row["Module"] for row in rows(result, "kernel_details"))
    assert {"Sequential.0", "Sequential.2"} <= modules.keys()


def test_a_program_that_knows_only_the_driver_has_its_kernels_and_copies_recorded(tmp_path):
    """The kernels and copies that the program launches are known exactly.

    PyTorch's own profiler gives their durations.
    """
    trace = tmp_path / "theirs.json"
    printed = run(tmp_path, str(STEPS), str(trace), program="gpu_driver.py")
    assert printed == run(tmp_path, str(STEPS), program="gpu_driver.py") == "3.75 3.75"
    (result,) = (tmp_path / "own").glob("*_ascend_ms")
    kernels = rows(result, "kernel_details")
    assert by_stream(placed(kernels)) == [["fill", "add"] * STEPS, ["fill"] * STEPS]
    assert Counter(row["Step ID"] for row in kernels) == {str(number): 3 for number in range(STEPS)}
    query = "select name, sets, bytes, count(*) as n from copies group by name, sets, bytes order by name"
    command = [sys.executable, "-m", "ms_profiler", "sql", "--format", "json", result, query]
    copies = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert [(row["name"], row["sets"], row["bytes"], row["n"]) for row in copies] == [
        ("Memcpy DtoH", False, 1 << 24, STEPS),
        ("Memcpy HtoD", False, 1 << 24, STEPS),
        ("Memset", True, 1 << 24, STEPS),
    ]
    same(kernels, launched(trace))
