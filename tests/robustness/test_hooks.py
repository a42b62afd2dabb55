"""Every hook of every plugin is made to fail in turn: the job is unharmed, and is told which one failed.

The product itself tells its hooks: a child of `failing_hooks.py` lists each place that a hook passes through.
"""

import json
import re
import subprocess
import sys

import pytest
from conftest import PROGRAMS, ROOT, environment
from ms_profiler.store import layout

#: the parts that the faults of a framework are divided into, for less than ten minutes each
PARTS = {"torch": 2, "mindspore": 3}
#: hooks of calls that a training in one process without a device does not make -> a test that makes them
ELSEWHERE = {
    r"torch\.cuda(_graphs)?\.": "test_torch_cuda.py",
    r"imported torch_npu\.": "test_npu_job.py",
    r"imported (transformers|stable_baselines3|lightning|pytorch_lightning)\.": "test_torch_trainers.py",
    r"mindspore\.loops\.Loops\.sinks": "test_mindspore_loops.py",
    r"mindspore\.recompute\.": "test_mindspore_captures.py",
    r"mindspore\.communication\.Collectives\.primitive": "test_mindspore_communication.py",
}


def outcomes(framework, folder, faults):
    """Return the outcome of each fault."""
    command = [sys.executable, str(PROGRAMS / "failing_hooks.py"), framework, str(folder), *faults]
    done = subprocess.run(
        command, env=environment(), cwd=folder, capture_output=True, text=True, timeout=580, check=False
    )
    found = {line["fault"]: line for line in map(json.loads, done.stdout.splitlines()) if "fault" in line}
    assert done.returncode == 0 and set(found) == set(faults), done.stderr
    assert (found["bare"]["code"], found["bare"]["error"]) == (7, ""), found["bare"]
    return found


def told(folder, line):
    """Return what a child says of its failures, on stderr and in its records."""
    texts = [line["err"]]
    for result in (folder / str(line["pid"])).glob("*_ascend_ms"):
        with open(layout.run_info_path(result)) as stream:
            info = json.load(stream)
        texts.append(json.dumps([info.get(key) for key in ("messages", "not_collected", "missing", "hooks")]))
    return "".join(texts)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Return the places of the hooks of each framework, and how often the training reaches each."""
    known = {}

    def of(framework):
        if framework not in known:
            found = outcomes(framework, tmp_path_factory.mktemp(framework), ["bare", "list"])
            bare, line = found["bare"], found["list"]
            assert (line["code"], line["result"], line["error"]) == (bare["code"], bare["result"], ""), line
            (known[framework],) = line["reached"]
        return known[framework]

    return of


@pytest.mark.parametrize("framework", PARTS)
def test_the_training_reaches_every_hook_that_is_not_excused(places, framework):
    assert all((ROOT / "tests" / name).exists() for name in ELSEWHERE.values())
    missed = {place for place, times in places(framework).items() if not times}
    excused = {place for place in missed if any(re.search(pattern, place) for pattern in ELSEWHERE)}
    assert missed - excused == set()
    assert len(places(framework)) > 100


@pytest.mark.parametrize(
    ("framework", "part"), [(name, part) for name, parts in PARTS.items() for part in range(parts)]
)
def test_each_hook_fails_in_turn(places, tmp_path, framework, part):
    faults = sorted(place for place, times in places(framework).items() if times)[part :: PARTS[framework]]
    found = outcomes(framework, tmp_path, ["bare", *faults])
    bare = found["bare"]
    others = bare["err"].splitlines()
    wrong = []
    for fault in faults:
        line = found[fault]
        same = (line["code"], line["result"], line["error"]) == (bare["code"], bare["result"], "")
        quiet = [text for text in line["err"].splitlines() if not text.startswith("ms-profiler: ")] == others
        if not (same and quiet and line["reached"] and "planted" in told(tmp_path, line)):
            wrong.append(line)
    assert wrong == []
