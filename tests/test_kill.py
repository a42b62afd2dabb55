"""All records survive SIGKILL, up to the last span that ended."""

import json
import random
import subprocess
import sys

import pytest
from conftest import PROGRAMS, environment
from ms_profiler.analysis.driver import engine

#: Number of reported spans after which the job is killed, drawn with a fixed seed. "session" uses a recorder alone,
#: "mindspore" a framework.
KILLS = [("session", count) for count in random.Random(20).choices(range(1, 30_000), k=18)]
IN_CELLS = [("mindspore", count) for count in random.Random(2).choices(range(1, 500), k=2)]


@pytest.mark.parametrize(
    ("kind", "count"), [*KILLS, *(pytest.param(*kill, marks=pytest.mark.slow) for kill in IN_CELLS)]
)
def test_every_span_that_was_reported_is_in_the_result(tmp_path, kind, count):
    options = {"start": True, "output_path": str(tmp_path), "overhead_budget": 0}
    with subprocess.Popen(
        [sys.executable, str(PROGRAMS / "report_spans.py"), kind],
        env=environment(options),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as job:
        for _ in range(count):
            assert job.stdout.readline()
        job.kill()
        reported = count + job.stdout.read().count(b"\n")
    (result,) = tmp_path.glob("*_ascend_ms")
    (analysed,) = engine.analyse([str(result)])
    assert not analysed.warning
    events = json.loads((result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    seen = {event["name"] for event in events if event["ph"] == "X"}
    missing = [number for number in range(reported) if f"span {number}" not in seen]
    assert reported >= count and not missing
    assert json.loads((result / "summary.json").read_text())["run"]["processes"][0]["state"] == "killed or vanished"
