"""The digest of a run: what it holds, and that it survives JSON."""

import json

import pytest
from ms_profiler.analysis.comparison import runs
from ms_profiler.analysis.comparison.digest import VERSION, Digest
from ms_profiler.errors import StoreError, UsageError

JOB = """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(12):
    optimizer.zero_grad()
    net(torch.ones(16, 64).clone()).sum().backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def done(launch):
    return launch(JOB, options={"analyse": "off"})


@pytest.fixture(scope="module")
def digest(done):
    return runs.digest(str(done.result))


def test_the_parts_of_a_step_add_up(digest):
    """Every nanosecond of the steps that stand for all is in one cell, and in one part."""
    assert sum(cell.ns for cell in digest.cells) == digest.told_ns
    assert sum(digest.bounds.values()) == pytest.approx(digest.told_ns, abs=len(digest.bounds))
    assert sum(digest.phases.values()) == pytest.approx(digest.told_ns, abs=len(digest.phases))
    middle = sorted(digest.step.durations_ns)[3:-2]
    assert middle[0] <= digest.told_ns <= middle[-1]


def test_counts_are_those_of_a_step(digest):
    """Twelve steps, the first of which warms up."""
    assert digest.step.count == 11
    copies = digest.counts["copies"]
    assert (copies.least, copies.most) == (copies.value, copies.value)
    by_name = {item.name: item.count for item in digest.operators}
    assert by_name["aten::ones"] == 1
    assert by_name["aten::addmm"] == 2


def test_it_knows_what_the_run_was(digest):
    shape = digest.fingerprint
    assert shape.framework.startswith("torch ")
    assert (shape.device, shape.world_size) == ("CPU", 1)
    assert shape.cpu
    assert shape.cores > 0
    assert digest.completeness.missing == ()
    assert digest.completeness.ended == ("exit",)
    assert digest.memory.host > 0
    assert digest.step.first_ns > digest.step.median_ns


def test_json_and_back(digest):
    content = json.loads(json.dumps(digest.to_dict()))
    assert Digest.from_dict(content) == digest
    assert Digest.from_dict(content | {"added later": 1}) == digest


def test_what_is_no_digest_is_refused(digest):
    content = digest.to_dict()
    for wrong in (None, [], {}, content | {"version": VERSION + 1}, content | {"step": {}}, content | {"told_ns": "x"}):
        with pytest.raises(StoreError, match=r"digest|version|damaged"):
            Digest.from_dict(wrong)


def test_several_runs_are_not_one(done):
    found = runs.digests(str(done.result))
    assert [len(launch) for launch in runs.launches([*found, *found])] == [1, 1]


def test_ranks_of_a_launch_are_one_run(digest):
    """Of two launches of two ranks each, which began at other times, two runs are made."""
    from dataclasses import replace

    def rank(number, hours):
        whole = replace(digest.completeness, expected=2, present=(number,))
        return replace(digest, completeness=whole, started_ns=digest.started_ns + hours * 3_600 * 10**9)

    parts = [rank(0, 0), rank(1, 0), rank(0, 1), rank(1, 1)]
    found = runs.launches(parts)
    assert [[part.completeness.present for part in launch] for launch in found] == [[(0,), (1,)], [(0,), (1,)]]
    merged = runs.merge(found[0])
    assert merged.completeness.present == (0, 1)
    assert merged.cells == digest.cells
    assert merged.counts == digest.counts


def test_a_path_with_several_runs_is_told(tmp_path, done):
    import shutil

    for name in ("a_ascend_ms", "b_ascend_ms"):
        shutil.copytree(done.result, tmp_path / name)
    with pytest.raises(UsageError, match="holds 2 runs"):
        runs.digest(str(tmp_path))
