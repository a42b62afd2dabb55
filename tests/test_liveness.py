import os
import socket
import subprocess
import sys

import pytest
from ms_profiler.analysis.driver import liveness
from ms_profiler.store.run_info import ProcessInfo, RunInfo

#: a folder that does not exist, so that the process has no stored exit status
FOLDER = "/nothing"


def boot_id():
    with open("/proc/sys/kernel/random/boot_id") as stream:
        return stream.read().strip()


def start_of(pid):
    with open(f"/proc/{pid}/stat") as stream:
        return int(stream.read().rpartition(")")[2].split()[19])


@pytest.fixture
def run():
    return RunInfo(host=socket.gethostname(), boot_id=boot_id())


def own():
    return ProcessInfo(pid=os.getpid(), process_start=start_of(os.getpid()))


@pytest.mark.parametrize("end", ["exit", "exception: KeyError"])
def test_process_that_wrote_its_end(run, end):
    assert liveness.state_of(ProcessInfo(pid=os.getpid(), state="ended", end=end), run, FOLDER) == end


@pytest.mark.parametrize(("text", "state"), [("3\n", "exit code 3"), ("0\n", "exit"), ("", "exit")])
def test_exit_status_that_it_wrote_after_its_end(run, tmp_path, text, state):
    (tmp_path / "exit_status").write_text(text)
    assert liveness.state_of(ProcessInfo(pid=os.getpid(), state="ended", end="exit"), run, str(tmp_path)) == state


def test_process_that_still_runs(run):
    assert liveness.state_of(own(), run, FOLDER) == "running"


def test_pid_that_was_given_to_another_process(run):
    process = own()
    process.process_start -= 1
    assert liveness.state_of(process, run, FOLDER) == "killed or vanished"


def test_same_pid_after_a_reboot(run):
    run.boot_id = "another boot"
    assert liveness.state_of(own(), run, FOLDER) == "killed or vanished"


def test_the_state_on_another_host_is_unknown(run):
    run.boot_id, run.host = "another boot", "another host"
    assert liveness.state_of(own(), run, FOLDER) == "unknown"


def test_process_that_was_killed(run):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = ProcessInfo(pid=child.pid, process_start=start_of(child.pid))
    assert liveness.state_of(process, run, FOLDER) == "running"
    child.kill()
    # a zombie still has a process id and a start time, but it has ended
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert liveness.state_of(process, run, FOLDER) == "killed or vanished"
    child.communicate()
    assert liveness.state_of(process, run, FOLDER) == "killed or vanished"
