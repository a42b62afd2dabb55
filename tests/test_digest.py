"""The digest of a run has the right contents, and they survive a round trip through JSON."""

import json
import shutil
from dataclasses import replace

import pytest
from compared_run import MS, compared_run
from ms_profiler.analysis.comparison import runs
from ms_profiler.analysis.comparison.digest import VERSION, Digest
from ms_profiler.errors import StoreError, UsageError


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return compared_run(tmp_path_factory.mktemp("run"), copies=2, reads=3)


@pytest.fixture(scope="module")
def digest(result):
    return runs.digest(result)


def test_every_nanosecond_of_a_step_is_in_one_cell(digest):
    found = {}
    for cell in digest.cells:
        key = cell.part, cell.module, cell.what
        found[key] = found.get(key, 0) + cell.ns
    assert found == {
        ("data", "", "wait for Data"): 3 * MS,
        **{("computing", f"Net.{number}", "aten::mm"): 2 * MS for number in range(6)},
        ("computing", "", "aten::copy_"): 2 * MS,
        ("computing", "", "aten::_local_scalar_dense"): 3 * MS // 10,
        ("computing", "SGD", "aten::add_"): MS,
    }
    assert digest.told_ns == digest.step.median_ns == sum(digest.bounds.values()) == sum(digest.phases.values())


def test_figures_of_a_step(digest):
    """The run has twelve steps. The first one warms up and does not count."""
    assert (digest.step.count, digest.step.total) == (11, 12)
    assert digest.step.durations_ns == (digest.told_ns,) * 11
    assert digest.step.first_ns == digest.told_ns + 50 * MS
    counts = {name: (count.value, count.least, count.most) for name, count in digest.counts.items()}
    assert counts["operators"] == (12, 12, 12)
    assert counts["copies"] == (2, 2, 2)
    assert counts["synchronisations"] == (3, 3, 3)
    assert counts["recompiles"] == (0, 0, 0)
    assert {(item.name, item.count, item.ns) for item in digest.operators} == {
        ("aten::mm", 6, 12 * MS),
        ("aten::copy_", 2, 2 * MS),
        ("aten::_local_scalar_dense", 3, 3 * MS // 10),
        ("aten::add_", 1, MS),
    }
    modules = {module.path: (module.total_ns, module.calls) for module in digest.modules}
    assert modules["Net"] == (12 * MS, 1)
    assert modules["Net.4"] == (2 * MS, 1)


def test_one_long_step_changes_no_time_of_a_usual_step(tmp_path, digest):
    found = runs.digest(compared_run(tmp_path, copies=2, reads=3, long=500.0))
    assert (found.operators, found.phases, found.bounds) == (digest.operators, digest.phases, digest.bounds)


def test_a_digest_describes_its_run(digest):
    shape = digest.fingerprint
    assert shape.framework == "torch 2.13.0"
    assert (shape.device, shape.world_size, shape.cpu, shape.cores) == ("CPU", 1, "a processor", 2)
    assert digest.completeness.missing == ()
    assert digest.completeness.ended == ("exit",)


def test_json_and_back(digest):
    content = json.loads(json.dumps(digest.to_dict()))
    assert Digest.from_dict(content) == digest
    assert Digest.from_dict(content | {"added later": 1}) == digest


def test_an_invalid_digest_is_refused(digest):
    content = digest.to_dict()
    odd = [{"step": {}}, {"told_ns": "x"}, {"told_ns": 10**400}, {"phases": []}, {"cells": "cells"}, {"cells": [None]}]
    odd += [{"counts": {"kernels": {"value": float("nan"), "least": 0, "most": 0, "per": "step"}}}]
    for wrong in (None, [], {}, content | {"version": VERSION + 1}, *(content | change for change in odd)):
        with pytest.raises(StoreError, match=r"digest|version|damaged"):
            Digest.from_dict(wrong)


def test_several_runs_are_not_one(result):
    found = runs.digests(result)
    assert [len(launch) for launch in runs.launches([*found, *found])] == [1, 1]


def test_ranks_of_a_launch_are_one_run(digest):
    """Two launches of two ranks each, which begin an hour apart, become two runs."""

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


def test_a_path_with_several_runs_is_an_error(tmp_path, result):
    for name in ("a_ascend_ms", "b_ascend_ms"):
        shutil.copytree(result, tmp_path / name)
    with pytest.raises(UsageError, match="holds 2 runs"):
        runs.digest(str(tmp_path))
