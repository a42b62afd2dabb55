"""A file of dynamic profiling selects the recorded steps, for the script's own monitor and for the variable."""

import json
import subprocess
import sys

import pytest
from conftest import PROGRAMS, environment, eventually
from test_api_profile import numbers, results, rows, start, summary


@pytest.mark.parametrize(
    ("loop", "way"),
    [
        *(pytest.param("model", way, marks=pytest.mark.slow) for way in ("variable", "install", "none")),
        *(pytest.param("loop", way, marks=pytest.mark.slow) for way in ("variable", "install", "none")),
    ],
)
def test_a_monitor_records_the_steps_its_file_asks_for(job, tmp_path, way, loop):
    if way == "none":
        run = job(PROGRAMS / "dynamic_monitor.py", loop, "ms_profiler", profile=False, env={"MS_PROFILER_RAISE": "1"})
    else:
        run = start(job, way, "dynamic_monitor.py", loop, "mindspore.profiler")
    assert run.code == 0, run.err
    assert sorted(path.name for path in (tmp_path / "own").iterdir()) == ["rank0_start2_stop3", "rank0_start9_stop12"]
    for begin, end in ((2, 3), (9, 12)):
        (result,) = results(tmp_path / "own" / f"rank0_start{begin}_stop{end}")
        assert numbers(result) == list(range(begin, end + 1))
        assert len(rows(result, "kernel_details.csv")) > 0
        assert summary(result)["steps"]["source"] == ("framework_loop" if loop == "model" else "script")
        shapes = result / "ASCEND_PROFILER_OUTPUT" / "operator_details.csv"
        assert shapes.exists() == (begin == 9)  # only the second request has record_shapes
    assert "start_step is 5 and stop_step 6, but step 14 begins" in run.err
    if way == "variable":
        assert len(numbers(run.result)) == 15


@pytest.mark.slow
def test_the_variable_names_a_file_that_is_watched(tmp_path):
    watched = tmp_path / "new" / "watched.json"
    options = {"start": True, "output_path": "results", "dynamic": str(watched), "record_shapes": True}
    with subprocess.Popen(
        [sys.executable, PROGRAMS / "dynamic_option.py"],
        cwd=tmp_path,
        env=environment() | {"MS_PROFILER_OPTIONS": json.dumps(options), "MS_PROFILER_RAISE": "1"},
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            eventually((tmp_path / "waits").exists, 120)
            content = json.loads(watched.read_text())
            assert content["start_step"] == -1
            watched.write_text(json.dumps(content | {"start_step": 9, "stop_step": 11, "analyse_mode": 0}))
        finally:
            (tmp_path / "goes on").touch()
        _, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    assert f"nothing is recorded until {watched} names start_step" in errors
    (folder,) = (tmp_path / "results").iterdir()
    (result,) = results(folder)
    assert folder.name == "rank0_start9_stop11"
    assert numbers(result) == [9, 10, 11]
    assert summary(result)["steps"]["source"] == "optimizer_cycle"
    # the file's record_shapes replaces that of the variable
    assert not (result / "ASCEND_PROFILER_OUTPUT" / "operator_details.csv").exists()


@pytest.mark.slow
def test_steps_up_to_the_jobs_end_are_stored(job, tmp_path):
    (tmp_path / "file.json").write_text('{"start_step": 18, "stop_step": 30, "analyse_mode": 0}')
    (tmp_path / "goes on").touch()
    run = job(PROGRAMS / "dynamic_option.py", options={"dynamic": "file.json"}, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    (folder,) = run.output.iterdir()
    (result,) = results(folder)
    assert numbers(result) == [18, 19, 20]


def test_an_impossible_file_is_named_and_the_job_continues(job):
    run = job("import mindspore\nprint('goes on')", options={"dynamic": "/dev/null/file.json"})
    assert (run.code, run.out) == (0, "goes on\n"), run.err
    assert "dynamic is '/dev/null/file.json', which cannot be written" in run.err
    assert not run.output.exists()
