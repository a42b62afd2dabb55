"""ms-profiler makes the right calls of aclprof in the right order, and handles each failure; the library is made up."""

import re
import subprocess
import sys
import textwrap

import pytest
from conftest import environment
from fakes_built import build_one, counter_fakes  # noqa: F401
from ms_profiler.job.devices import aclprof

#: Begin of each program. It defines `npu` (our object), `plan`, `options`, `library`, and `refusals`, which collects
#: refused options.
PROLOGUE = """
import ctypes, os, signal, sys
from ms_profiler.job.devices.aclprof_plan import plan
from ms_profiler.job.devices.aclprof_tracing import AclprofTracing, Order, device
from ms_profiler.job.recorder.tracing import Kinds, Outcome
from ms_profiler.options import resolve

refusals = []
options = resolve({"profiler_level": "Level2", "aic_metrics": "MemoryAccess", "l2_cache": True, "pcie": True,
    "host_sys": ["cpu", "mem"]})[0]
npu = AclprofTracing(lambda: Order(plan([options], 500_000_000), sys.argv[1], 3),
    lambda names, why: refusals.append((*names, why)))
library = os.environ["MS_PROFILER_LIBACLPROF"]
"""
SETTINGS = ["aclprofSetConfig 1 500MB 0", "aclprofSetConfig 6 50 0", "aclprofSetConfig 8 cpu,mem 0"]
CREATED = "aclprofCreateConfig 3 8 0x13f 0"


@pytest.fixture
def run(counter_fakes, tmp_path):  # noqa: F811
    """Return a function that runs a program with the fake library, and returns the run, its output and the calls."""

    def run(program, words="", library=None, check=True):
        log, out = tmp_path / "log", tmp_path / "out"
        out.mkdir(exist_ok=True)
        extra = {
            aclprof.PLACES.variable: str(library or counter_fakes / "libmsprofiler.so"),
            "FAKE_ACLPROF": words,
            "FAKE_ACLPROF_LOG": str(log),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROLOGUE + textwrap.dedent(program), str(out)],
            env=environment(**extra),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert not check or (done.returncode, done.stderr) == (0, ""), done.stderr
        lines = log.read_text().splitlines() if log.exists() else []
        calls = [line.split(" ", 1)[1] for line in lines]
        return done, done.stdout.splitlines(), [call.replace(str(out), "OUT") for call in calls]

    return run


def test_the_exact_calls(run, tmp_path):
    _, printed, calls = run(
        """
        print(npu.attach(library), npu.record(Kinds.BASIC), npu.record(Kinds.BASIC))
        print(npu.record(Kinds.NOTHING), npu.record(Kinds.BASIC), npu.flush().name, npu.detach().name)
        print(npu.detach().name, refusals)
        """
    )
    done = "(<Outcome.DONE: 0>, '')"
    assert printed == [f"{done} {done} {done}", f"{done} {done} DONE DONE", "IDLE []"]
    assert calls == [
        "aclprofInit OUT 0",
        *SETTINGS,
        CREATED,
        "aclprofStart 0",
        "aclprofStop 0",
        "aclprofStart 0",
        "aclprofStop 0",
        "aclprofDestroyConfig 0",
        "aclprofFinalize 0",
    ]
    (folder,) = (tmp_path / "out").iterdir()
    assert re.fullmatch(r"PROF_\d+_\d+_\w+", folder.name)
    assert (folder / "host" / "end_info").exists()


def test_a_missing_library_is_missing(run, tmp_path):
    _, printed, calls = run("print(*npu.attach(library))", library=tmp_path / "none.so")
    assert calls == []
    assert printed == [f"5 {tmp_path}/none.so: cannot open shared object file: No such file or directory"]


def test_a_missing_symbol_is_named(run, tmp_path):
    library = build_one(tmp_path, "libmsprofiler.so", ["aclprof.c", "-DWITHOUT_START"])
    _, printed, calls = run("print(*npu.attach(library))", library=library)
    assert calls == []
    assert printed == [f"5 {library} has no aclprofStart; source CANN's set_env.sh before the job"]


def test_functions_that_the_library_lacks_come_from_its_base(run, tmp_path):
    library = build_one(tmp_path, "libmsprofiler.so", ["aclprof.c", "-DWITHOUT_START"])
    base = build_one(tmp_path, "libascendcl.so", ["ascend.c", "-DACL", "aclprof.c"])
    _, printed, calls = run(f"ctypes.CDLL({str(base)!r}); print(npu.attach(library)[0].name)", library=library)
    assert printed == ["DONE"]
    assert calls[0] == "aclprofInit OUT 0"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (100002, "it is in use in this process already; end the other profiler, or leave NPU out"),
        (100042, "profiling runs already, by the command msprof, acl.json or an option of GE"),
        (148047, "a program of this process has subscribed to its own profiling"),
        (200007, "a part of CANN's profiler is missing; install the complete CANN toolkit"),
        (500005, "CANN had an internal error; its log"),
    ],
)
def test_the_owner_or_the_error_is_reported_and_nothing_else_is_called(run, code, why):
    _, printed, calls = run(
        "outcome, why = npu.attach(library); print(outcome.name, why); npu.record(Kinds.BASIC); npu.detach()",
        words=f"aclprofInit={code}",
    )
    (line,) = printed
    assert line.startswith(f"FAILED aclprofInit answered {code}: {why}")
    assert calls == [f"aclprofInit OUT {code}"]


def test_an_unknown_code_is_reported(run):
    _, printed, _ = run("print(*npu.attach(library))", words="aclprofInit=7")
    assert printed == ["3 aclprofInit answered 7"]


def test_a_second_owner_is_refused(run):
    """ms-profiler refuses a second owner of aclprof in a process, and the first owner's recording continues."""
    _, printed, calls = run(
        """
        other = AclprofTracing(npu._plan, npu._refused)
        print(npu.attach(library)[0].name, other.attach(library)[0].name, other.detach().name, npu.detach().name)
        """
    )
    assert printed == ["DONE FAILED IDLE DONE"]
    assert calls.count("aclprofFinalize 0") == 1


def test_refused_settings_are_reported_and_the_others_are_recorded(run):
    _, printed, calls = run(
        "print(npu.attach(library)[0].name); print(refusals)", words="aclprofSetConfig8=100010 aclprofSetConfig6=9"
    )
    assert printed == [
        "DONE",
        "[('pcie', 'aclprofSetConfig 6 50 answered 9'), ('host_sys', 'aclprofSetConfig 8 cpu,mem answered 100010: this "
        "NPU or this CANN does not take that value; leave the option out')]",
    ]
    assert calls[-1] == CREATED


def test_counters_that_an_npu_lacks_are_replaced(run):
    _, printed, calls = run("print(npu.attach(library)[0].name, refusals)", words="aclprofCreateConfig8=0")
    assert printed == [
        "DONE [('aic_metrics', 'this NPU has no MemoryAccess; PipeUtilization is recorded in its place')]"
    ]
    assert calls[-2:] == ["aclprofCreateConfig 3 8 0x13f 1", "aclprofCreateConfig 3 1 0x13f 0"]


def test_without_a_configuration_the_library_is_released(run):
    _, printed, calls = run("print(*npu.attach(library))", words="aclprofCreateConfig=0")
    assert printed == ["3 aclprofCreateConfig refuses 0x13f of device 3; ask for less"]
    assert calls[-1] == "aclprofFinalize 0"
    assert "aclprofDestroyConfig 0" not in calls


def test_a_failed_start_is_reported_and_everything_is_released(run):
    _, printed, calls = run(
        "npu.attach(library); print(*npu.record(Kinds.BASIC)); npu.detach()", words="aclprofStart=500005"
    )
    (line,) = printed
    assert line.startswith("3 aclprofStart answered 500005: CANN had an internal error; its log")
    assert calls[-3:] == ["aclprofStart 500005", "aclprofDestroyConfig 0", "aclprofFinalize 0"]


@pytest.mark.parametrize("begun", [False, True])
def test_ctrl_c_reaches_the_script(run, begun):
    """Ctrl-C interrupts the script during and after the recording; the library's handler never gets the signal."""
    _, printed, calls = run(
        f"""
        npu.attach(library), npu.record(Kinds.BASIC)
        {"pass" if begun else "npu.detach()"}
        try:
            os.kill(os.getpid(), signal.SIGINT)
            signal.pause()
        except KeyboardInterrupt:
            print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        """
    )
    assert printed == ["interrupted True"]
    assert not [call for call in calls if call.startswith("interrupted")]


def test_a_handler_of_the_scripts_own_stays(run):
    _, printed, _ = run(
        """
        signal.signal(signal.SIGINT, lambda *_: print("mine"))
        npu.attach(library)
        os.kill(os.getpid(), signal.SIGINT)
        npu.detach()
        os.kill(os.getpid(), signal.SIGINT)
        """
    )
    assert printed == ["mine", "mine"]


def test_a_fork_child_calls_nothing(run):
    _, printed, calls = run(
        """
        npu.attach(library), npu.record(Kinds.BASIC)
        pid = os.fork()
        if pid == 0:
            npu.record(Kinds.NOTHING), npu.detach()
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), npu.detach().name)
        """
    )
    assert printed == ["7 DONE"]
    assert calls.count("aclprofStop 0") == calls.count("aclprofFinalize 0") == 1


@pytest.mark.parametrize(("number", "known"), [("5", "5"), ("-1", "None")])
def test_the_npu_in_use_comes_from_the_loaded_library(run, counter_fakes, monkeypatch, number, known):  # noqa: F811
    monkeypatch.setenv("FAKE_ACL_DEVICE", number)
    _, printed, _ = run(f"print(npu.ready()); ctypes.CDLL({str(counter_fakes / 'libascendcl.so')!r}); print(device())")
    assert printed == ["False", known]


def test_an_interface_without_msprof_does_nothing(run):
    program = (
        "only = AclprofTracing(None, None); print(*only.attach(library), *only.record(Kinds.BASIC), only.detach())"
    )
    _, printed, calls = run(program)
    # msprof, which reads the raw data, is missing on this machine
    assert (printed, calls) == (["0  0 msprof 1"], [])
