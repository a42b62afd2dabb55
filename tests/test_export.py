"""msprof makes tables from aclprof's data; the raw data stay, whether msprof succeeds or not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import eventually
from fakes_built import FAKES
from ms_profiler import cann
from ms_profiler.analysis.driver import export

US = 1000
#: each task: name, type, stream, launch in ns, start in ns, length in ns, thread
TASKS = [
    ("MatMul1", "MatMul", 2, 10 * US, 50 * US, 20 * US, 77),
    ("Add1", "Add", 2, 12 * US, 70 * US, 5 * US, 77),
    ("hcom_allReduce__001_0_1", "hcom_allReduce_", 3, 15 * US, 60 * US, 30 * US, 77),
]


@pytest.fixture
def result(tmp_path, monkeypatch):
    """Return a result directory with a folder of raw data, and put the made-up msprof on the path."""
    folder = tmp_path / "host_1_2_ascend_ms" / "PROF_000001_1_FAKE"
    (folder / "device_0" / "data").mkdir(parents=True)
    lines = "".join(" ".join(map(str, task)) + "\n" for task in TASKS)
    (folder / "device_0" / "data" / "tasks").write_text(lines)
    monkeypatch.setenv("PATH", os.pathsep.join([str(FAKES), os.environ["PATH"]]))
    monkeypatch.setenv("FAKE_MSPROF_LOG", str(tmp_path / "log"))
    return folder.parent


@pytest.fixture
def nowhere(monkeypatch):
    """Make the machine look as if CANN were not installed."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in cann.HOMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cann, "USUAL", ())


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


RAW = ["PROF_000001_1_FAKE/device_0/data/tasks"]
MADE = [
    f"PROF_000001_1_FAKE/mindstudio_profiler_output/{name}_20260101000000.{form}"
    for name, form in (
        ("l2_cache", "csv"),
        ("msprof", "json"),
        ("npu_module_mem", "csv"),
        ("op_summary_slice_0", "csv"),
        ("op_summary_slice_1", "csv"),
    )
]


def test_its_tables_are_beside_the_raw_data_and_made_once(result, tmp_path):
    (made,) = export.export(str(result))
    output = str(result / "PROF_000001_1_FAKE" / "mindstudio_profiler_output")
    assert made == export.Export(str(result / "PROF_000001_1_FAKE"), output)
    assert files(result) == RAW + MADE
    assert {path.stat().st_mode & 0o777 for path in Path(output).iterdir()} == {0o640}
    assert export.export(str(result)) == export.look(str(result)) == [made]
    (call,) = (tmp_path / "log").read_text().splitlines()
    assert call.startswith("--export=on --output=") and call.endswith("PROF_000001_1_FAKE")


def test_a_result_that_is_to_be_left_alone_is(result, tmp_path):
    target = tmp_path / "elsewhere"
    (made,) = export.export(str(result), str(target))
    assert files(result) == RAW
    assert files(target) == MADE
    assert export.look(str(result), str(target)) == [made]
    assert export.look(str(result))[0].output == ""


def test_raw_data_not_yet_read_name_the_command(result):
    (found,) = export.look(str(result))
    assert found.why == f"msprof has not read it yet; run: ms-profiler analyse {result}"


def ended(pid):
    """Return whether a process has ended, even if its parent has not read its exit status."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def advice(result):
    folder = result / "PROF_000001_1_FAKE"
    return f"on a machine with CANN, run: msprof --export=on --output={folder}, then: ms-profiler analyse {result}"


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("fails", "msprof ended with 1 ([ERROR] The data of this folder is incomplete)"),
        ("empty", "msprof wrote no trace and no table of kernels"),
    ],
)
def test_after_a_failure_the_raw_data_stay(result, monkeypatch, mode, why):
    monkeypatch.setenv("FAKE_MSPROF", mode)
    (made,) = export.export(str(result))
    assert (made.output, made.why) == ("", f"{why}; the raw data are kept; {advice(result)}")
    assert files(result) == RAW


def test_a_hanging_msprof_is_ended_with_its_children(result, monkeypatch, tmp_path):
    monkeypatch.setenv("FAKE_MSPROF", "hangs")
    (made,) = export.export(str(result), patience=2)
    assert made.why == f"msprof did not end within 2 s; the raw data are kept; {advice(result)}"
    assert files(result) == RAW
    (child,) = [int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines() if "child" in line]
    eventually(lambda: ended(child))


def test_an_analysis_that_is_killed_takes_it_with_it(result, monkeypatch, tmp_path):
    """If the analysis is killed, msprof ends as well. The next analysis removes the copied data."""
    monkeypatch.setenv("FAKE_MSPROF", "hangs")
    program = "import sys; from ms_profiler.analysis.driver import export; export.export(sys.argv[1])"
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", program, str(result)]) as analysis:
        eventually(lambda: log.exists() and "child" in log.read_text())
        analysis.kill()
    (child,) = [int(line.split()[1]) for line in log.read_text().splitlines() if "child" in line]
    eventually(lambda: ended(child))
    assert len(list(result.iterdir())) == 2
    monkeypatch.setenv("FAKE_MSPROF", "")
    export.export(str(result))
    assert files(result) == RAW + MADE


def test_without_msprof_the_line_names_the_command(result, nowhere):
    (made,) = export.export(str(result))
    assert (made.output, made.why) == ("", f"msprof is not found; {advice(result)}")
    assert files(result) == RAW


def test_a_result_without_raw_data_runs_nothing(tmp_path):
    assert export.export(str(tmp_path)) == export.look(str(tmp_path / "none")) == []


def test_the_fake_writes_the_documented_lanes(result):
    (made,) = export.export(str(result))
    (trace,) = Path(made.output).glob("msprof_*.json")
    lanes = [event["args"]["name"] for event in json.loads(trace.read_text()) if event["name"] == "process_name"]
    assert lanes == ["CANN", "Ascend Hardware", "Communication"]
