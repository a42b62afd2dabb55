"""A rank of torchrun or msrun ends in some way: the launcher ends as without ms-profiler, and the records are there.

The ways are an exception, an exit, a kill and a crash. In other tests, the ranks hang until the launcher gets SIGTERM:
torchrun ends its ranks, and msrun leaves its ranks behind. The ranks wait for each other before rank 1 ends. So two
runs can be compared, and the watcher of `ms-profiler run` knows both ranks.
"""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import PROGRAMS, environment, eventually
from launches import TOOLS, free_port
from ms_profiler.analysis.driver import engine
from ms_profiler.store import layout

#: number of steps of each rank before one of them ends, as in `way_to_end.py`
STEPS = 4
#: way in which rank 1 ends -> its end according to the summary
WAYS = {
    "exception": "exception: RuntimeError",
    "exit code": "exit code 3",
    "abrupt exit": "exit code 3, without Python's exit",
    "SIGKILL": "killed by SIGKILL",
    "crash": "killed by SIGSEGV",
}


def watched(pid):
    """Return whether another process holds a pidfd of a process, as the watcher of `ms-profiler run` does."""
    for path in Path("/proc").glob("[0-9]*/fdinfo/*"):
        try:
            if re.search(rf"^Pid:\t{pid}$", path.read_text(), re.MULTILINE):
                return True
        except OSError:
            continue
    return False


def launch(folder, command, profile, stop=0):
    """Run a launcher to its end; return its exit code, its ranks' lines, and how many ranks outlive the signal.

    Args:
        folder: the working directory, which must not exist yet.
        command: the command line of the launcher.
        profile: whether the job is profiled by `ms-profiler run`.
        stop: a signal that the launcher gets once all ranks are ready; 0 for none.
    """
    folder.mkdir()
    if profile:
        ours = [TOOLS / "ms-profiler", "run", "--output-path", folder / "data", "--option=analyse=off"]
        command = [*ours, "--", *command]
    variables = environment(PATH=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
    with open(folder / "launcher.log", "w") as log:
        launcher = subprocess.Popen(
            list(map(str, command)), env=variables, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    pids, left = [], 0
    try:
        eventually(lambda: launcher.poll() is not None or len(list(folder.glob("ready_*"))) == 2, 120)
        assert launcher.poll() is None, (folder / "launcher.log").read_text()
        pids = [int((folder / f"ready_{rank}").read_text()) for rank in range(2)]
        if profile:
            eventually(lambda: all(map(watched, pids)))
        (folder / "go").touch()
        if stop:
            launcher.send_signal(stop)
        code = launcher.wait(120)
        left = sum(map(runs, pids)) if stop else 0
    finally:
        for pid in (launcher.pid, *pids):
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # the process has ended already, as it should
    eventually(lambda: not any(map(runs, pids)))
    printed = [path.read_text(errors="replace") for path in (folder / "logs").rglob("*.log")]
    return code, sorted(line for text in printed for line in text.splitlines() if line.startswith("rank ")), left


def runs(pid):
    """Return whether a process still runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def ends(folder, results, known=True):
    """Return how each rank ended, by (rank, start); check that each result has the rank's steps.

    Args:
        folder: the working directory of the job.
        results: the expected number of results.
        known: whether the rank itself or the watcher of `ms-profiler run` writes how the rank ends.
    """
    found = sorted((folder / "data").glob("*_ascend_ms"))
    assert len(found) == results, (folder / "launcher.log").read_text()
    states = {}
    for path in found:
        # the watcher checks the processes once more when it ends, which is after the launcher's end
        eventually(lambda path=path: not known or list(path.glob("FRAMEWORK/process_*/exit_status")) or ended(path), 20)
        (done,) = engine.analyse([path])
        assert not done.error and not done.warning, done
        summary = json.loads((path / layout.SUMMARY).read_text())
        assert summary["world_size"] == 2 and summary["steps"]["count"] >= STEPS
        (process,) = summary["run"]["processes"]
        states[summary["rank"], json.loads(Path(layout.run_info_path(path)).read_text())["attempt"]] = process["state"]
    return states


def ended(path):
    """Return whether the process of a result itself wrote that it ended by an exception."""
    (info,) = path.glob(f"FRAMEWORK/process_*/{layout.PROCESS_INFO}")
    return json.loads(info.read_text())["end"].startswith("exception")


def torchrun(way, restarts=0):
    """Return the torchrun command of a job of two ranks, of which rank 1 ends in a way."""
    command = [TOOLS / "torchrun", "--nproc_per_node=2", f"--master_port={free_port()}", f"--max-restarts={restarts}"]
    return [*command, "--redirects=3", "--log-dir=logs", PROGRAMS / "launched_torch.py", way]


def torch_twice(tmp_path, way, restarts=0, stop=0):
    """Run a job of torchrun bare and profiled, check that both are the same, and return the result of `launch`."""
    bare = launch(tmp_path / "bare", torchrun(way, restarts), False, stop)
    if restarts and bare[0]:
        # once, torchrun ended the bare job with 1 after all its steps; a restarted job is expected to end with 0
        bare = launch(tmp_path / "bare again", torchrun(way, restarts), False, stop)
    assert launch(tmp_path / "profiled", torchrun(way, restarts), True, stop) == bare
    return bare


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_of_torchrun_ends(tmp_path, way):
    code, lines, _ = torch_twice(tmp_path, way)
    assert code == 1 and len(lines) == 2 * STEPS
    states = ends(tmp_path / "profiled", 2)
    assert states[1, 0] == WAYS[way]
    # either gloo reports the lost neighbour to the other rank, or torchrun ends that rank
    assert states[0, 0].startswith(("exception: ", "exit code 1", "killed by SIGTERM")), states


@pytest.mark.parametrize("way", ["exception", "SIGKILL"])
def test_a_job_that_torchrun_restarts_continues(tmp_path, way):
    code, lines, _ = torch_twice(tmp_path, way, restarts=1)
    assert code == 0 and len(lines) == 2 * STEPS + 2 * 2 * STEPS
    states = ends(tmp_path / "profiled", 4)
    assert (states[1, 0], states[0, 1], states[1, 1]) == (WAYS[way], "exit", "exit")


def test_ranks_of_torchrun_hang_until_it_gets_a_signal(tmp_path):
    _, lines, left = torch_twice(tmp_path, "hang", stop=signal.SIGTERM)
    assert len(lines) == 2 * STEPS and left == 0
    assert set(ends(tmp_path / "profiled", 2).values()) == {"killed by SIGTERM"}


def msrun(way):
    """Return the msrun command of a job of two ranks, of which rank 1 ends in a way."""
    command = [TOOLS / "msrun", "--worker_num=2", "--local_worker_num=2", "--join=True", "--log_dir=logs"]
    return [*command, f"--master_port={free_port()}", PROGRAMS / "launched_mindspore.py", way]


def msrun_twice(tmp_path, way, stop=0):
    """Run a job of msrun bare and profiled, check that both are the same, and return the result of `launch`."""
    bare = launch(tmp_path / "bare", msrun(way), False, stop)
    assert launch(tmp_path / "profiled", msrun(way), True, stop) == bare
    return bare


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_of_msrun_ends(tmp_path, way):
    code, lines, _ = msrun_twice(tmp_path, way)
    assert code != 0 and len(lines) == 2 * STEPS
    states = ends(tmp_path / "profiled", 2)
    assert states[1, 0] == WAYS[way]
    # either MindSpore reports the lost neighbour to the other rank, or msrun ends that rank
    assert states[0, 0].startswith(("exception: ", "exit code", "killed by ")), states


def test_ranks_of_msrun_hang_and_outlive_it(tmp_path):
    """SIGTERM ends only msrun. Its ranks run until another program kills them, after the watcher ended with msrun."""
    code, lines, left = msrun_twice(tmp_path, "hang", stop=signal.SIGTERM)
    assert (code, len(lines), left) == (-signal.SIGTERM, 2 * STEPS, 2)
    states = ends(tmp_path / "profiled", 2, known=False)
    assert states == dict.fromkeys([(0, 0), (1, 0)], "killed or vanished")
