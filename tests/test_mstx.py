"""Markers of scripts are recorded on a CPU with their domains, by our functions and by MindSpore's."""

import collections
import json

import pytest
from conftest import PROGRAMS
from test_api_profile import results, start

ALL = {"moment": 1, "mine: moment": 1, "outer": 1, "mine: inner": 1}
MINE = {name: 1 for name in ALL if name.startswith("mine: ")}
OTHER = {name: 1 for name in ALL if name not in MINE}


def marked(result):
    """Return {marker: how often it is in the timeline}."""
    trace = json.loads((result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    return collections.Counter(event["name"] for event in trace if event["name"] in ALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "way"),
    [("ms_profiler", "variable"), ("ms_profiler", "none"), ("mindspore.profiler", "install")],
)
def test_markers_of_the_requested_domains(job, tmp_path, names, way):
    if way == "install":
        run = start(job, way, "own_markers.py", names)
    else:
        run = job(PROGRAMS / "own_markers.py", names, profile=way == "variable", env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    for folder, expected in (("own__", ALL), ("own_mine_", MINE), ("own__mine", OTHER)):
        (result,) = results(tmp_path / folder)
        assert marked(result) == expected
    if way == "variable":
        assert marked(run.result) == dict.fromkeys(ALL, 4)
