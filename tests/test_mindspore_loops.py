"""Model loops: what of them is a step."""

import json

import pytest
from conftest import PROGRAMS
from events import events


@pytest.mark.parametrize(
    ("where", "steps", "what"), [("cpu", 12, "data sinking"), ("device", 3, "steps inside a data sink")]
)
def test_data_sinking_is_said_and_its_steps_are_sinks(job, where, steps, what):
    bare = job(PROGRAMS / "sink.py", where, profile=False)
    run = job(PROGRAMS / "sink.py", where, env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out) == (bare.code, bare.out) == (0, bare.out), run.err
    summary = json.loads((run.result / "summary.json").read_text())
    assert (summary["steps"]["count"], summary["steps"]["source"]) == (steps, "framework_loop")
    assert [note["what"] for note in summary["not_collected"]] == [what]
    calls = [event.name for event in events(run.result) if event.name == "send dataset"]
    assert len(calls) == (where == "device")
