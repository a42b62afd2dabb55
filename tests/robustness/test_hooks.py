"""Every hook of every plugin fails once: the job is unharmed, and the failed hook is reported.

The hooks come from the product itself: a child of `failing_hooks.py` lists each place that a hook passes through.
"""

import json
import re
import subprocess
import sys

import pytest
from conftest import PROGRAMS, ROOT, environment
from ms_profiler.store import layout

#: number of tests over which the faults of a framework are divided; each takes some minutes
PARTS = {"torch": 6, "mindspore": 6}
#: Pattern of hooks that a training in one process without a device does not reach -> a test that reaches them.
ELSEWHERE = {
    r"torch\.cuda(_graphs)?\.": "test_torch_cuda.py",
    r"imported torch_npu\.": "test_npu_job.py",
    r"imported torch\.distributed\._tensor\.": "torch_versions.py",  # the module's name in earlier versions of PyTorch
    r"imported (transformers|stable_baselines3|lightning|pytorch_lightning)\.": "test_torch_trainers.py",
    r"mindspore\.loops\.Loops\.sinks": "test_mindspore_loops.py",
    r"mindspore\.transforms\.Transforms\.note_pool": "test_transforms.py",
    r"mindspore\.recompute\.": "test_mindspore_captures.py",
    r"mindspore\.communication\.Collectives\.primitive": "test_mindspore_communication.py",
}


def outcomes(framework, folder, faults):
    """Run a child for each fault, and return {fault: the child's report}."""
    command = [sys.executable, str(PROGRAMS / "failing_hooks.py"), framework, str(folder), *faults]
    done = subprocess.run(
        command, env=environment(), cwd=folder, capture_output=True, text=True, timeout=3000, check=False
    )
    found = {line["fault"]: line for line in map(json.loads, done.stdout.splitlines()) if "fault" in line}
    assert done.returncode == 0 and set(found) == set(faults), done.stderr
    assert (found["bare"]["code"], found["bare"]["error"]) == (7, ""), found["bare"]
    return found


def foreign(line):
    """Return the lines of a child on stderr that are neither ms-profiler's nor Kineto's, which have pid and time."""
    return [text for text in line["err"].splitlines() if not text.startswith(("ms-profiler: ", "USDT:"))]


def reported(folder, line):
    """Return all messages of a child as one text: those on stderr and those in its records."""
    texts = [line["err"]]
    for result in (folder / str(line["pid"])).glob("*_ascend_ms"):
        with open(layout.run_info_path(result)) as stream:
            info = json.load(stream)
        texts.append(json.dumps([info.get(key) for key in ("messages", "not_collected", "missing", "hooks")]))
    return "".join(texts)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Return a function that returns {place of a hook: how often the training reaches it} for a framework."""
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
    others = foreign(bare)
    wrong = []
    for fault in faults:
        line = found[fault]
        same = (line["code"], line["result"], line["error"]) == (bare["code"], bare["result"], "")
        if not (same and foreign(line) == others and line["reached"] and "planted" in reported(tmp_path, line)):
            wrong.append(line)
    assert wrong == []
