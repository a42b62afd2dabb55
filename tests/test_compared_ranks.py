"""Ranks are compared with ranks of the same launch, on the same machines, and each rank's work counts."""

import pytest
from ms_profiler import cli
from ms_profiler.analysis.comparison import runs
from ms_profiler.gate import comparable
from ms_profiler.store.format import Category
from store_builder import MS, RAW_NS, WALL_NS, StoreBuilder


def write(folder, rank, *, job="J", operators=5, started=0, cpu="a cpu", steps=20, step_ns=10 * MS):
    """Write the result of one of two ranks, and return its path.

    Args:
        folder: the folder that gets the result.
        rank: the number of the rank.
        job: the name of the launch.
        operators: the number of operators in a step.
        started: seconds after the usual begin of a run.
        cpu: the model of the processor.
        steps: the number of steps.
        step_ns: the duration of a step, ns.
    """
    name = f"host_{4242 + rank}_20260101{started:09d}_ascend_ms"
    machine = {"cpu": cpu, "cores": "4"}
    begin = WALL_NS / 1e9 + started
    store = StoreBuilder(
        folder, name, rank=rank, world_size=2, pid=4242 + rank, started_wall=begin, job=job, machine=machine
    )
    process = store.process()
    process.control.slots = bytearray()
    process.anchor(0, offset=started * 10**9)
    thread = process.thread()
    for number in range(steps):
        start = number * step_ns
        part = step_ns // (operators + 1)
        for place in range(operators if step_ns else 0):
            thread.span("MatMul", Category.OP, start + place * part, start + place * part + part // 2)
        thread.step(number, start, start + step_ns)
    process.info.ended_ns = RAW_NS + steps * step_ns + MS
    return store.write()


def pair(folder, first=5, second=5, **more):
    """Write both ranks of a launch, whose steps have these numbers of operators, and return the folder."""
    write(folder, 0, operators=first, **more)
    write(folder, 1, operators=second, **more)
    return folder


def gated(base, new, capsys):
    """Return the exit code of the gate, and its first line."""
    code = cli.main(["gate", "--runs", str(base), "--versus", str(new)])
    return code, capsys.readouterr().out.splitlines()[0]


def test_ranks_of_two_launches_are_no_complete_job(tmp_path, capsys):
    base = pair(tmp_path / "base")
    write(tmp_path / "mixed", 0, job="X")
    write(tmp_path / "mixed", 1, job="Y", started=100)
    code, line = gated(base, tmp_path / "mixed", capsys)
    assert code == 3 and "lacks rank 1 of 2" in line


def test_a_rank_joins_its_own_launch_and_not_one_that_lacks_its_number(tmp_path):
    alone = write(tmp_path, 0, job="X")
    pair(tmp_path, job="Y", started=60)
    found = runs.digests(str(tmp_path))
    assert [each.completeness.present for each in found] == [(0,), (0, 1)]
    assert [fault for each in found for fault in comparable.faults(each)] == [f"{alone.name} lacks rank 1 of 2."]


@pytest.mark.parametrize("jobs", [("X", "Y"), ("X", "X"), ("", "")], ids=["launcher of each rank", "one", "unknown"])
def test_ranks_that_run_at_the_same_time_are_one_launch(tmp_path, jobs):
    for rank, job in enumerate(jobs):
        write(tmp_path, rank, job=job)
    (found,) = runs.digests(str(tmp_path))
    assert found.completeness.present == (0, 1)


def test_each_ranks_processor_is_compared(tmp_path, capsys):
    base = pair(tmp_path / "base")
    write(tmp_path / "new", 0)
    write(tmp_path / "new", 1, cpu="an old cpu")
    code, line = gated(base, tmp_path / "new", capsys)
    assert code == 3 and "the processor differs: a cpu and a cpu, an old cpu." in line


@pytest.mark.parametrize(("before", "after"), [((5, 30), (5, 60)), ((5, 30), (5, 31)), ((12, 10), (13, 11))])
def test_more_operators_of_any_rank_are_a_regression(tmp_path, capsys, before, after):
    base, new = pair(tmp_path / "base", *before), pair(tmp_path / "new", *after)
    code, line = gated(base, new, capsys)
    assert code == 1 and line.startswith("REGRESSION: Operators a step grew.")
    assert gated(base, pair(tmp_path / "same", *before, job="K"), capsys)[0] == 0
    assert cli.main(["compare", str(base), str(new)]) == 0
    assert "The work changed: operators" in capsys.readouterr().out


def test_steps_that_take_no_time_cannot_be_compared(tmp_path, capsys):
    code, line = gated(pair(tmp_path / "base"), pair(tmp_path / "new", step_ns=0), capsys)
    assert code == 3 and line.endswith("has steps that take no time.")
