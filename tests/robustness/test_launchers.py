"""A rank of torchrun fails, leaves, is killed, crashes or hangs: torchrun ends as without, and the records are there.

Both ranks meet before rank 1 ends, so that two runs can be compared, and the watcher of `ms-profiler run` knows both.
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

#: steps of each rank before one of them ends, as in `way_to_end.py`
STEPS = 4
#: way in which rank 1 ends -> what the summary of its result says
WAYS = {
    "exception": "exception: RuntimeError",
    "exit code": "exit code 3",
    "abrupt exit": "exit code 3, without Python's exit",
    "SIGKILL": "killed by SIGKILL",
    "crash": "killed by SIGSEGV",
}


def watched(pid):
    """Return whether another process holds a descriptor of a process, as the watcher of `ms-profiler run` does."""
    for path in Path("/proc").glob("[0-9]*/fdinfo/*"):
        try:
            if re.search(rf"^Pid:\t{pid}$", path.read_text(), re.MULTILINE):
                return True
        except OSError:
            continue
    return False


def launch(folder, command, profile, stop=0):
    """Run a launcher to its end; return its exit code, and what its ranks printed.

    Args:
        folder: where it runs.
        command: its words.
        profile: whether it is profiled.
        stop: a signal that the launcher gets when the ranks have met; 0 for none.
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
    pids = []
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
    finally:
        for pid in (launcher.pid, *pids):
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended, as it should
    printed = [path.read_text(errors="replace") for path in folder.rglob("*.log")]
    return code, sorted(line for text in printed for line in text.splitlines() if line.startswith("rank "))


def ends(folder, results):
    """Return how each rank ended, by rank and start; the steps of each are there.

    Args:
        folder: of the job.
        results: the number of results that it has.
    """
    found = sorted((folder / "data").glob("*_ascend_ms"))
    assert len(found) == results, (folder / "launcher.log").read_text()
    states = {}
    for path in found:
        # the watcher looks once more at its end, and that is after the launcher's
        eventually(lambda path=path: list(path.glob("FRAMEWORK/process_*/exit_status")) or ended(path), 20)
        (done,) = engine.analyse([path])
        assert not done.error and not done.warning, done
        summary = json.loads((path / layout.SUMMARY).read_text())
        assert summary["world_size"] == 2 and summary["steps"]["count"] >= STEPS
        (process,) = summary["run"]["processes"]
        states[summary["rank"], json.loads(Path(layout.run_info_path(path)).read_text())["attempt"]] = process["state"]
    return states


def ended(path):
    """Return whether a process wrote itself how it ended."""
    (info,) = path.glob(f"FRAMEWORK/process_*/{layout.PROCESS_INFO}")
    return json.loads(info.read_text())["end"].startswith("exception")


def torchrun(way, restarts=0):
    """Return the command of a job of two ranks."""
    command = [TOOLS / "torchrun", "--nproc_per_node=2", f"--master_port={free_port()}", f"--max-restarts={restarts}"]
    return [*command, "--redirects=3", "--log-dir=logs", PROGRAMS / "launched_torch.py", way]


def torch_twice(tmp_path, way, restarts=0, stop=0):
    """Run a job of torchrun bare and profiled; return its exit code and lines."""
    bare = launch(tmp_path / "bare", torchrun(way, restarts), False, stop)
    assert launch(tmp_path / "profiled", torchrun(way, restarts), True, stop) == bare
    return bare


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_of_torchrun_ends(tmp_path, way):
    code, lines = torch_twice(tmp_path, way)
    assert code == 1 and len(lines) == 2 * STEPS
    states = ends(tmp_path / "profiled", 2)
    assert states[1, 0] == WAYS[way]
    # gloo tells the other rank that its neighbour is gone, or torchrun ends it
    assert states[0, 0].startswith(("exception: ", "exit code 1", "killed by SIGTERM")), states


@pytest.mark.parametrize("way", ["exception", "SIGKILL"])
def test_a_job_that_torchrun_starts_again_goes_on(tmp_path, way):
    code, lines = torch_twice(tmp_path, way, restarts=1)
    assert code == 0 and len(lines) == 2 * STEPS + 2 * 2 * STEPS
    states = ends(tmp_path / "profiled", 4)
    assert (states[1, 0], states[0, 1], states[1, 1]) == (WAYS[way], "exit", "exit")


def test_ranks_of_torchrun_hang_until_it_is_told_to_end(tmp_path):
    _, lines = torch_twice(tmp_path, "hang", stop=signal.SIGTERM)
    assert len(lines) == 2 * STEPS
    assert set(ends(tmp_path / "profiled", 2).values()) == {"killed by SIGTERM"}
