"""A profiled job ends with the same status as a bare one, and its analysis is no child of the job.

If the result of the analysis does not matter to a test, a shell script replaces the analysis's interpreter.
"""

import os
import re
import signal
import subprocess
import sys

import pytest
from conftest import environment, eventually
from guests import STAND_INS, Guest, lines_of

NATIVE, PYTHON = "", "import sys; sys.modules['ms_profiler._native'] = None\n"
STATES = pytest.mark.parametrize("state", [NATIVE, PYTHON], ids=["native", "python"])
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


class Analysis:
    """Replace the interpreter of the analysis by a shell script."""

    def __init__(self, folder):
        self.path = folder / "interpreter"
        self.started = folder / "started"

    def __call__(self, script, *, imports="import mindspore, sys\n", then="print('trained')"):
        """Return the text of a job whose analysis is the shell script."""
        self.path.write_text(
            f"#!/bin/sh\necho $$ > {self.started}.new; mv {self.started}.new {self.started}\n{script}\n"
        )
        self.path.chmod(0o755)
        return f"{imports}sys.executable = {str(self.path)!r}\n{then}\n"

    def pid(self):
        """Return the process id of the analysis, once it runs."""
        eventually(self.started.exists)
        return int(self.started.read_text())

    def lives(self):
        """Return whether the analysis still runs."""
        try:
            with open(f"/proc/{self.pid()}/stat") as stream:
                return stream.read().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False


@pytest.fixture
def analysis(tmp_path):
    """Return a stand-in for the analysis, which is killed after the test."""
    made = Analysis(tmp_path)
    yield made
    if made.started.exists() and made.lives():
        os.kill(made.pid(), signal.SIGKILL)


def finish(process):
    """Wait for a process; return its exit code, its stdout, and the profiler's lines on stderr."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, lines_of(err)


def in_files(guest, program, folder, options=None):
    """Run a job whose stderr is a log file; return its exit code and the profiler's lines."""
    with (folder / "log").open("w+b") as log:
        process = guest.start(program, options, stdout=subprocess.DEVNULL, stderr=log)
        process.wait(timeout=60)
        log.seek(0)
        return process.returncode, lines_of(log.read())


# -- the messages of the analysis


@STATES
def test_an_analysis_that_takes_longer_continues_alone(guest, analysis, tmp_path, state):
    """The late analysis writes its result into a pipe without a reader."""
    go, done = tmp_path / "go", tmp_path / "done"
    script = f"trap '' PIPE\nwhile [ ! -e {go} ]; do sleep 0.1; done\necho 'ms-profiler: x' 2>{done} || true"
    code, lines = in_files(guest, state + analysis(script), tmp_path, {"exit_timeout": 0.3})
    assert code == 0
    assert "exit_timeout is 0.3 s" in lines[-1] and "ms-profiler summary" in lines[-1]
    assert analysis.lives()
    go.touch()
    eventually(lambda: not analysis.lives())
    assert "Broken pipe" in done.read_text() or "I/O error" in done.read_text()


@STATES
def test_records_of_more_than_can_be_analysed_in_time_are_not_waited_for(guest, analysis, tmp_path, state):
    code, lines = in_files(guest, state + analysis("sleep 100"), tmp_path, {"exit_timeout": 0.0001})
    assert code == 0
    assert "the analysis would take longer than exit_timeout (0.0001 s), so it runs in the background" in lines[-1]
    assert analysis.lives()


@STATES
@pytest.mark.parametrize("end", ["exit 3", "kill -ABRT $$", "kill -KILL $$"])
def test_a_failed_analysis_is_reported(guest, analysis, tmp_path, state, end):
    code, lines = in_files(guest, state + analysis(f"echo broken >&2; {end}"), tmp_path)
    assert code == 0 and "the analysis failed" in lines[-1]
    (log,) = guest.output.glob("*/logs/analysis.log")
    assert log.read_text() == "broken\n"


@STATES
def test_a_log_gets_the_verdict(guest, analysis, tmp_path, state):
    code, lines = in_files(guest, state + analysis("echo 'ms-profiler: the verdict'"), tmp_path)
    assert (code, lines[-1]) == (0, "the verdict")


@STATES
def test_a_quiet_job_prints_no_verdict(guest, analysis, tmp_path, state):
    for script in "exit 3", "echo 'ms-profiler: the verdict'":
        assert "verdict" not in str(in_files(guest, state + analysis(script), tmp_path, {"quiet": True}))


@STATES
@pytest.mark.parametrize("script", ["exit 3", "echo 'ms-profiler: the verdict'", "exec sleep 100"])
def test_descriptor_2_that_is_a_file_of_the_job(guest, analysis, tmp_path, state, script):
    """With `2>&-`, the first file that the job opens gets descriptor 2. The analysis must not write into it."""
    program = "import os\nassert os.open('own', os.O_RDWR | os.O_CREAT) == 2\n" + state + analysis(script)
    process = guest.start(program, {"exit_timeout": 0.3}, stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"trained\n")
    assert analysis.pid() and (tmp_path / "own").read_bytes() == b""


# -- readers of the job's output


LATE = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *work(void *x) { usleep(2000000); abort(); return x; }
void start(void) { pthread_t thread; pthread_create(&thread, NULL, work, NULL); }
void print(void) { printf("said by C\\n"); }
static int armed;
void arm(void) { armed = 1; }
__attribute__((destructor)) static void leave(void) {
  printf("said by a destructor\\n");
  if (armed) ualarm(100000, 10000);
}
"""


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    """Return lines of Python that load a library with work to do after Python's end."""
    folder = tmp_path_factory.mktemp("late")
    (folder / "late.c").write_text(LATE)
    subprocess.run(["cc", "-shared", "-fPIC", "late.c", "-o", "late.so", "-pthread"], cwd=folder, check=True)
    return f"import ctypes\nlate = ctypes.CDLL({str(folder / 'late.so')!r})\n"


@pytest.mark.parametrize("first", [True, False], ids=["loaded before us", "loaded after us"])
def test_readers_are_let_go_when_the_job_is_done(guest, analysis, late, first):
    """The job's stdout and stderr close while the process still waits for its analysis, and no output is lost."""
    program = analysis("exec sleep 100", then="import os\nos.dup(1), os.dup2(2, 77)\nlate.print()\nsys.exit(3)")
    program = late + program if first else program.replace("import mindspore, sys", "import mindspore, sys\n" + late)
    process = guest.start(program, **PIPES)
    out, err = process.stdout.read(), process.stderr.read()
    assert out == b"said by C\nsaid by a destructor\n"
    line = r"recorded to (.*) ; being analysed ; to see the result: ms-profiler summary \1"
    assert re.fullmatch(line, lines_of(err)[-1])
    assert process.poll() is None and analysis.lives()
    process.terminate()
    assert process.wait(timeout=60) == 3
    process.stdout.close()
    process.stderr.close()


def test_after_a_kill_no_process_of_ours_holds_the_jobs_pipes(guest, analysis):
    """After a kill, the analysis holds neither the job's pipes nor any other inheritable descriptor."""
    reader, writer = os.pipe()
    program = analysis("exec sleep 100", then="print('trained')")
    process = guest.start(program, pass_fds=[writer], **PIPES)
    os.close(writer)
    analysis.pid()
    process.kill()
    assert process.communicate(timeout=60)[0] == b"trained\n"
    assert os.read(reader, 1) == b""
    os.close(reader)
    assert analysis.lives()


# -- signals


ENDING = ["SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGXCPU", "SIGABRT", "SIGRTMIN"]
#: code that leaves a thread running at the interpreter's end, which takes any signal
THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(100,), daemon=True).start()\nsys.exit(3)"


def heard(name):
    """Return a line that restores a signal's default action, because under nohup the tests run with it ignored."""
    number = f"signal.{name}"
    return f"import signal\nif signal.getsignal({number}) == signal.SIG_IGN: signal.signal({number}, signal.SIG_DFL)\n"


@pytest.mark.parametrize("name", ENDING)
def test_a_signal_ends_the_wait_and_not_the_job(guest, analysis, name):
    process = guest.start(heard(name) + analysis("trap '' INT HUP; sleep 100", then=THREAD), **PIPES)
    process.stdout.read()  # waits for the end of the job's output
    assert analysis.pid() and process.poll() is None
    process.send_signal(getattr(signal, name))
    assert finish(process)[0] == 3
    assert analysis.lives()


#: Code that sends a signal while ms-profiler closes its files. It makes closing take a second, so that the signal comes
#: in time.
WHILE_WE_CLOSE = """
import atexit, os, signal, sys, time

def hook(event, arguments):
    if ended and event == "open" and "process_info" in str(arguments[0]):
        ended.clear()
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

ended = []
sys.addaudithook(hook)
"""
HANDLED = "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'handled\\n'), os._exit(5)))\n"
#: work of the job after ms-profiler's exit function, so that the signal comes during that work
GOES_ON = "atexit.register(lambda: (os.write(1, b'on\\n'), time.sleep(60)))\n"


@pytest.mark.parametrize(
    ("begins", "code", "out"),
    [
        ("", 3, b""),
        (HANDLED, 3, b""),
        (GOES_ON, -signal.SIGTERM, b"on\n"),
        (GOES_ON + HANDLED, 5, b"on\nhandled\n"),
    ],
    ids=["default", "handled", "default, in time", "handled, in time"],
)
def test_a_signal_while_we_close_has_its_usual_effect(guest, begins, code, out):
    program = f"{WHILE_WE_CLOSE}{begins}import mindspore\nended.append(1)\nsys.exit(3)"
    process = guest.start(program, {"analyse": "off"}, **PIPES)
    assert process.communicate(timeout=60)[0] == out
    assert process.returncode == code


def test_a_timer_of_the_job_comes_too_late(guest, analysis, late):
    """A timer of the job that would fire after the job's end has no effect."""
    process = guest.start(late + analysis("sleep 0.6; echo 'ms-profiler: x'; touch done", then="late.arm()"), **PIPES)
    assert finish(process)[0] == 0
    assert (guest.folder / "done").exists()


def test_a_signal_that_the_job_ignores_is_ignored(guest, analysis):
    ignores = "import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)"
    process = guest.start(analysis("sleep 0.3; echo 'ms-profiler: x' && touch done", then=ignores), **PIPES)
    process.stdout.read()
    process.send_signal(signal.SIGUSR1)
    assert finish(process)[0] == 0
    assert (guest.folder / "done").exists()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_the_same_without_the_extension(guest, analysis, name):
    process = guest.start(PYTHON + analysis("exec sleep 100", then="sys.exit(3)"), **PIPES)
    analysis.pid()
    eventually(lambda: blocks(process.pid, getattr(signal, name)))
    process.send_signal(getattr(signal, name))
    assert finish(process)[0] == 3


def blocks(pid, number):
    """Return whether the main thread of a process blocks a signal."""
    with open(f"/proc/{pid}/status") as stream:
        (mask,) = re.findall(r"SigBlk:\s+(\w+)", stream.read())
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_a_crash_in_a_thread_that_is_left_behind_comes_too_late(guest, analysis, late):
    """At the end of a bare process, the thread stops before it crashes. Its crash during our wait has no effect."""
    program = late + analysis("sleep 3; echo 'ms-profiler: x'", then="late.start()")
    bare, profiled = guest.both(program, lambda: {"stderr": subprocess.DEVNULL}, {"exit_timeout": 9})
    assert profiled == bare == (0, b"said by a destructor\n", None, None)


# -- the parent of the analysis


CHILDREN = """
import atexit, os, signal
def look():
    try:
        print("reaped", os.wait())
    except ChildProcessError:
        print("no child")
    import psutil
    print(len(psutil.Process().children()), "children")
    print(signals, "signals", signal.pthread_sigmask(signal.SIG_BLOCK, ()))
signals = []
{how}
atexit.register(look)  # comes after ours, which the import registers
"""
HANDLED = """
def reap(*_):
    signals.append(1)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
signal.signal(signal.SIGCHLD, reap)
"""
IGNORED = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("how", ["", HANDLED, IGNORED], ids=["default", "handled", "ignored"])
def test_the_analysis_is_no_child_of_the_job(guest, analysis, mode, how):
    program = CHILDREN.format(how=how) + analysis("sleep 0.4; echo 'ms-profiler: x'")
    bare, profiled = guest.both(program, lambda: {"stderr": subprocess.DEVNULL}, {"analyse": mode})
    assert profiled == bare == (0, b"trained\nno child\n0 children\n[] signals set()\n", None, None)
    eventually(lambda: not analysis.lives())


@pytest.mark.parametrize("how", [HANDLED, IGNORED], ids=["handled", "ignored"])
def test_the_extension_is_not_there_and_it_is_analysed(guest, analysis, tmp_path, how):
    program = PYTHON + CHILDREN.format(how=how) + analysis("echo 'ms-profiler: the verdict'")
    code, lines = in_files(guest, program, tmp_path)
    assert (code, lines[-1]) == (0, "the verdict")


@STATES
def test_the_analysis_has_nothing_of_the_job(guest, analysis, tmp_path, state):
    """The analysis has its own session, only the three standard descriptors, and no ignored or blocked signals."""
    # only built-in commands of the shell: to start another program, the shell blocks signals
    copy = f'while read -r line; do echo "$line"; done >> {tmp_path}/found'
    look = f"echo /proc/$$/fd/* > {tmp_path}/found; {copy} < /proc/$$/status; {copy} < /proc/$$/stat"
    job = (
        "import os, signal\nos.set_inheritable(os.open('/dev/null', os.O_RDONLY), True)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
    )
    process = guest.start(state + job + analysis(look + "; echo 'ms-profiler: x'"), **PIPES)
    assert finish(process)[0] == 0
    found = (tmp_path / "found").read_text()
    descriptors = {int(path.rpartition("/")[2]) for path in found.splitlines()[0].split()}
    assert descriptors == {0, 1, 2, 3, 10}, "the usual three; the shell reads that folder and its script"
    if state == NATIVE:
        masks = dict(re.findall(r"(Sig(?:Blk|Ign)):\s+(\w+)", found))
        assert set(masks.values()) == {"0" * 16}
        pid, session = re.findall(r"^(\d+) .*\) \w \d+ \d+ (\d+)", found, re.MULTILINE)[-1]
        assert pid == session


AGAIN = """
import os, sys
os.environ |= {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "1"}
import mindspore
if "AGAIN" not in os.environ:
    os.environ["AGAIN"] = "1"
    os.execv(sys.orig_argv[0], sys.orig_argv)
"""


def test_a_job_that_replaces_itself_by_exec_is_analysed(guest, analysis, tmp_path):
    """The process that began the first result still runs, as another program."""
    code, lines = in_files(guest, AGAIN + analysis("echo 'ms-profiler: the verdict'"), tmp_path)
    assert (code, lines[-1]) == (0, "the verdict")
    assert len(list(guest.output.glob("*_ascend_ms"))) == 2


#: program whose child lives until the analysis has looked for it, or for a second
CHILD = """
import multiprocessing, os, time, mindspore
def work():
    end = time.monotonic() + 1
    while time.monotonic() < end and not os.path.exists("looked"):
        time.sleep(0.01)
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
with open("child", "w") as stream:
    stream.write(str(child.pid))
"""


def test_the_analysis_begins_when_children_that_are_waited_for_have_ended(guest, analysis, tmp_path):
    look = "kill -0 $(cat child) 2>/dev/null && echo 'ms-profiler: too early' || echo 'ms-profiler: complete'"
    code, lines = in_files(guest, CHILD + analysis(f"{look}; touch looked", imports="import sys\n"), tmp_path)
    assert (code, lines[-1]) == (0, "complete")


def test_an_interpreter_that_is_gone_costs_a_line(guest, analysis, tmp_path):
    code, lines = in_files(guest, "import mindspore, sys\nsys.executable = '/no such'", tmp_path)
    assert code == 0 and "the analysis failed" in lines[-1] and "No such file" in lines[-1]


# -- with the real framework


def test_with_the_framework_itself(tmp_path):
    """The job's pipes close when its own work is done. The process ends when the result is complete."""
    guest = Guest(tmp_path, real=True)
    process = guest.start("import mindspore\nprint('trained')\nimport sys\nsys.exit(3)", **PIPES)
    code, out, lines = finish(process)
    assert (code, out, len(lines)) == (3, b"trained\n", 2)
    (result,) = guest.output.glob("*_ascend_ms")
    assert (result / "summary.json").exists()


def test_a_launcher_of_ranks_has_one_analysis(tmp_path):
    """The ranks end at the same time. Their file system has no locks."""
    output = tmp_path / "data"
    program = "import fcntl\ndel fcntl.flock\nimport mindspore\nprint('trained')"
    variables = {"PYTHONPATH": STAND_INS, "WORLD_SIZE": "3", "MASTER_PORT": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=environment({"start": True, "output_path": str(output)}, RANK=str(rank), **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank in range(3)
    ]
    assert [finish(rank)[0] for rank in ranks] == [0, 0, 0]
    assert len(list(output.glob("*/FRAMEWORK/ended"))) == 3
    assert len(list(output.glob("*/FRAMEWORK/analysed_3"))) == 1
    assert len(list(output.glob("*/summary.json"))) == 3
