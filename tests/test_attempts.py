"""A rank that its launcher starts again has a result for each start, and the newer result names the older one."""

import json
import os
import socket

import pytest
from conftest import PROGRAMS
from launches import TOOLS, launched
from ms_profiler.cli import main
from ms_profiler.job import attempts, process
from ms_profiler.store import layout, run_info
from store_builder import StoreBuilder

PIDS = 5_000_000  # no process has such a number


def test_the_result_before_is_that_of_the_same_rank_and_launch(tmp_path):
    def info(pid, **fields):
        return run_info.RunInfo(pid=pid, host="h", boot_id="b", job="j", rank=1, started_wall=float(pid), **fields)

    for pid, fields in ((1, {}), (2, {"attempt": 1}), (3, {"attempt": 2})):
        folder = tmp_path / f"h_{pid}_2026010100000000{pid}_ascend_ms"
        (folder / layout.FRAMEWORK).mkdir(parents=True)
        run_info.write(layout.run_info_path(str(folder)), info(pid, **fields))
    (tmp_path / "broken_ascend_ms").mkdir()
    own = process.Identity(1, 1, 2, 1, "", "j", True)

    def earlier(count, identity=own):
        environ = {"TORCHELASTIC_RESTART_COUNT": count}
        return attempts.earlier(str(tmp_path), identity, info(9), environ)

    assert earlier("2") == (2, "h_2_20260101000000002_ascend_ms")
    assert earlier("1") == (1, "h_1_20260101000000001_ascend_ms")
    assert earlier("0") == earlier("") == earlier("x") == (0, "")
    assert earlier("1", own._replace(rank=0)) == earlier("1", own._replace(job="k")) == (1, "")


@pytest.mark.slow
def test_ranks_that_torchrun_starts_again(tmp_path, capsys):
    options = {"start": True, "output_path": str(tmp_path / "data")}
    command = [TOOLS / "torchrun", "--standalone", "--nproc_per_node=2", "--max-restarts=1"]
    launched([[*command, PROGRAMS / "failing_rank_torch.py"]], tmp_path, options)
    infos = {
        path.parent.parent.name: json.loads(path.read_text())
        for path in (tmp_path / "data").glob("*/FRAMEWORK/run_info.json")
    }
    assert sorted((info["rank"], info["attempt"]) for info in infos.values()) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for info in infos.values():
        before = infos.get(info["before"])
        assert (before is not None) == (info["attempt"] == 1)
        assert before is None or (before["rank"], before["attempt"]) == (info["rank"], 0)
    assert main(["cluster", str(tmp_path / "data"), "--json", "--no-files"]) == 0
    found = json.loads(capsys.readouterr().out)
    newest = sorted(name for name, info in infos.items() if info["attempt"] == 1)
    assert sorted(os.path.basename(row["directory"]) for row in found["ranks"]) == newest
    left_out = [text for text in found["remarks"] if "is an older result of start 1" in text]
    assert 1 <= len(left_out) <= 2, found["remarks"]  # one remark for each way in which the ranks ended
    assert any("exception: RuntimeError" in text for text in left_out)


def test_remarks_of_ranks_that_were_killed_twice(tmp_path, capsys):
    for pid, attempt in enumerate((0, 0, 1, 1)):
        name = f"host_{pid + 1}_2026010100000012{pid}_ascend_ms"
        store = StoreBuilder(tmp_path, name, pid=PIDS + pid, rank=pid % 2, world_size=2)
        store.info.job, store.info.attempt, store.info.host = "job", attempt, socket.gethostname()
        process_ = store.process(PIDS + pid, state="running", end="")
        process_.thread().step(0, (50 + attempt) * 1_000_000, (60 + attempt) * 1_000_000)
        process_.anchor((70 + attempt) * 1_000_000)
        store.write()
    assert main(["cluster", str(tmp_path), "--json"]) == 0
    remarks = json.loads(capsys.readouterr().out)["remarks"]
    older = [text for text in remarks if "older result" in text]
    (line,) = older
    name = tmp_path / "host_1_20260101000000120_ascend_ms"
    reason = "of ranks 0, 1: each is an older result of start 1, which ended with killed or vanished; left out."
    assert line == f"{name} and 1 more, {reason}"
    # neither of the newer results has tables, and one remark names both
    (without,) = [text for text in remarks if "files for other tools" in text]
    assert "host_3_20260101000000122_ascend_ms and 1 more" in without and "analyse" in without
    assert not any("No such file" in text for text in remarks)


@pytest.mark.slow
def test_actors_of_ray_have_a_result_each_with_their_role(tmp_path, capsys):
    pytest.importorskip("ray")
    options = {"start": True, "output_path": str(tmp_path / "data")}
    launched([[TOOLS / "python", PROGRAMS / "ray_actors.py"]], tmp_path, options)
    infos = [json.loads(path.read_text()) for path in (tmp_path / "data").glob("*/FRAMEWORK/run_info.json")]
    assert sorted((info["role"], info["actor"].get("name", "")) for info in infos) == [
        ("", ""),  # the driver, which imports the framework, too
        ("Generator", ""),
        ("Trainer", "trainer-0"),
    ]
    actors = [info["actor"]["actor"] for info in infos if info["role"]]
    assert len({len(actor) for actor in actors}) == 1 and len(set(actors)) == 2
    assert main(["merge", str(tmp_path / "data"), "--output", str(tmp_path / "trace.pftrace")]) == 0
    assert "3 ranks" in capsys.readouterr().out


@pytest.mark.slow
def test_actors_that_are_no_ranks_of_one_job_are_all_in_one_timeline(tmp_path, capsys):
    for number in range(3):
        name = f"host_{number + 1}_2026010100000012{number}_ascend_ms"
        store = StoreBuilder(tmp_path / "data", name, pid=number + 1)
        store.info.role, store.info.actor = "Worker", {"actor": f"{number}" * 8}
        process_ = store.process(number + 1)
        process_.thread().step(0, 50_000_000, 60_000_000)
        process_.anchor(70_000_000)
        store.write()
    assert main(["merge", str(tmp_path / "data"), "--output", str(tmp_path / "trace.pftrace")]) == 0
    assert "3 ranks" in capsys.readouterr().out
    assert b"Worker 22222222" in (tmp_path / "trace.pftrace").read_bytes()
    assert main(["cluster", str(tmp_path / "data"), "--json", "--no-files"]) == 0
    assert len(json.loads(capsys.readouterr().out)["remarks"]) == 2
