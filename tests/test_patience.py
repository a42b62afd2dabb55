"""A file system that does not answer delays the end of a job only as long as ms-profiler is willing to wait."""

import os
import signal
import subprocess

import pytest
from guests import lines_of

#: Source of a library in which calls on files never return, except on the first thread: as if the server with the
#: helper's files did not answer, while the job's own files are elsewhere.
HANGS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>
static void hang(const char *what) {
  const char *wanted = getenv("HANGS");
  if (wanted == NULL || *wanted != *what || syscall(SYS_gettid) == getpid()) return;
  for (;;) pause();
}
int fallocate(int fd, int mode, off_t offset, off_t length) {
  hang("fallocate");
  return ((int (*)(int, int, off_t, off_t))dlsym(RTLD_NEXT, "fallocate"))(fd, mode, offset, length);
}
int statvfs(const char *path, struct statvfs *found) {
  hang("statvfs");
  return ((int (*)(const char *, struct statvfs *))dlsym(RTLD_NEXT, "statvfs"))(path, found);
}
"""
JOB = """
import os, sys
import mindspore
from ms_profiler.job import recording
recording.PATIENCE = 0.5
print("trained")
"""


@pytest.fixture(scope="module")
def hangs(tmp_path_factory):
    """Return the library that makes calls on files hang."""
    folder = tmp_path_factory.mktemp("hangs")
    (folder / "hangs.c").write_text(HANGS)
    subprocess.run(["cc", "-shared", "-fPIC", "hangs.c", "-o", "hangs.so", "-ldl"], cwd=folder, check=True)
    return folder / "hangs.so"


@pytest.mark.parametrize("call", ["fallocate", "statvfs"])
def test_a_file_system_that_does_not_answer(guest, hangs, call):
    """A call hangs while the helper makes a segment, or at the end.

    The job ends nevertheless with its own exit code.
    """
    process = guest.start(
        JOB + "sys.exit(3)",
        env={"LD_PRELOAD": str(hangs), "HANGS": call},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, b"trained\n"), err
    first, last = lines_of(err)
    assert first.startswith("recording to ") and "has not answered for 0.5 s" in last
    (result,) = guest.output.glob("*_ascend_ms")
    assert list(result.glob("FRAMEWORK/process_*/*.seg")), "as after a kill"


def test_an_analysis_that_ends_in_time_prints_nothing(guest, hangs):
    process = guest.start(JOB, {"quiet": True}, env={"LD_PRELOAD": str(hangs)}, stderr=subprocess.PIPE)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert list(guest.output.glob("*/summary.json"))


#: Program that forks while the helper is the only other thread. The helper continues afterwards.
FORKS = """
import os, sys, threading, time
from ms_profiler import _native
from ms_profiler.job.recorder import create
from ms_profiler.store.format import Kind

def threads():
    return len(os.listdir("/proc/self/task"))

recorder, _ = create()
recorder.open(sys.argv[1])
recorder.answers(10)  # it runs
name = recorder.intern("x")
print(threads(), end=" ")
_native.lib.msp_helper_rest()
print(threads(), end=" ")
if os.fork() == 0:
    os._exit(threads())
print(os.waitstatus_to_exitcode(os.wait()[1]), end=" ")
for number in range(10):
    now = recorder.now()
    recorder.record(Kind.STEP, 1, 0, name, now, now, number)
recorder.answers(10)
print(threads(), end=" ")
done = threading.Event()
thread = threading.Thread(target=done.wait)
thread.start()
_native.lib.msp_helper_rest()  # beside another thread of the job's it need not
print(threads(), end=" ")
done.set()
thread.join()
_native.lib.msp_helper_rest()
recorder.close()
recorder.open(sys.argv[2])
recorder.answers(10)
_native.lib.msp_helper_rest()
for number in range(10000):
    recorder.end(recorder.begin(name, 1, number))
print(recorder.answers(10), threads())
recorder.close()
"""


def test_the_helper_rests_while_the_job_forks(tmp_path, job):
    """From CPython 3.12 on, Python counts threads and warns of a fork while another thread runs."""
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        folder.mkdir()
    run = job(FORKS, *map(str, folders), profile=False)
    assert (run.code, run.err) == (0, "")
    assert run.out == "2 1 1 2 3 True 2\n"


#: program in which `dynamic` or a script's own recording waits for an analysis that does not end
DURING = """
import mindspore, sys, time
from ms_profiler.job import collection, handover
sys.executable = {interpreter!r}
main = collection.current().main
began = time.monotonic()
handover.during(main)
print(time.monotonic() - began < 30)
"""


def test_an_analysis_while_the_job_runs_is_not_waited_for_longer(guest, tmp_path):
    interpreter = tmp_path / "interpreter"
    interpreter.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 100\n")
    interpreter.chmod(0o755)
    program = DURING.format(interpreter=str(interpreter))
    process = guest.start(program, {"exit_timeout": 0.3}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"True\n")
    assert "exit_timeout" in lines_of(err)[1]
    pid = int((tmp_path / "pid").read_text())
    assert runs(pid)
    os.kill(pid, signal.SIGKILL)


def runs(pid):
    """Return whether a process still runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
