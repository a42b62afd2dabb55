"""Faults of the machine do not change a training job, and lose only the records that could not be written."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import environment
from fakes_built import build_one
from unharmed import analysed, training, unharmed

pytest_plugins = ["recorder_fixtures"]

#: Limit -> text before the import of the framework, text after six steps. The job takes a hundred more steps at its
#: end.
LIMITS = {
    "size of files, from the start": (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))",
        "",
    ),
    "size of files, later, as a signal": (
        "",
        "import resource; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))",
    ),
    "no size of files at all": ("", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"),
    "descriptors, from the start": (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))",
        "",
    ),
    "no descriptor, later": (
        "",
        "import resource; used = len(os.listdir('/proc/self/fd')) - 1\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))",
    ),
    "address space": (
        "",
        "import resource; size = int(open('/proc/self/statm').read().split()[0]) * 4096 + (24 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size, size))",
    ),
    "no more threads": ("", "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))"),
    "no core, no stack": (
        "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))",
        "",
    ),
    "locked memory": ("import resource; resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))", ""),
}
MORE = "\nfor number in range(100): loss = step()\nprint(loss, flush=True)"


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("options", [{}, {"with_stack": "sample", "profile_memory": True, "record_shapes": True}])
def test_limits_of_the_process(twice, limit, options):
    before, after = LIMITS[limit]
    run = twice(training(after + MORE, before), options=options | {"overhead_budget": 0})
    # without free descriptors, PyTorch's own exit function prints a traceback, in the bare run as well
    assert run.code == 0 and not any("Traceback" in line for line in run.lines)
    assert run.results, "it was profiled"


NAMES = """
long, other, control = "n" * (10 << 20), "\\udc80\\ud800 \\udfff", "a\\0b\\x1b[2J\\n=cmd|' /C calc'!A0\\u202e"
for name in (long, other, control):
    kind = type("Kind", (torch.nn.Linear,), {})
    try:
        kind.__name__ = name.replace("\\0", "")
    except UnicodeEncodeError as error:
        print(type(error).__name__)
    inner = kind(4, 4)
    net = torch.nn.Sequential()
    try:
        net.add_module(name.replace(".", ""), inner)
    except Exception as error:
        print(type(error).__name__)
    outer = torch.nn.Sequential()
    outer._modules[name] = inner
    for _ in range(3): outer(torch.ones(2, 4)).sum().backward()
    def work():
        inner(torch.ones(2, 4))
        print(len(threading.current_thread().name))
    thread = threading.Thread(target=work, name=name)
    thread.start(); thread.join()
    try:
        with torch.profiler.record_function(name): step()
    except (UnicodeEncodeError, RuntimeError) as error:
        print(type(error).__name__)
optimizer_kind = type("Optimizer", (torch.optim.SGD,), {})
optimizer_kind.__name__ = long
optimizer_kind(model.parameters(), 0.1).step()
print(step())
"""


@pytest.mark.parametrize("stacks", [True, "sample", False])
def test_names_of_ten_megabytes_and_names_that_are_no_text(twice, stacks):
    run = twice(training(NAMES), options={"overhead_budget": 0, "with_stack": stacks, "report": True}, timeout=200)
    assert run.code == 0, run.err
    assert all(len(line) < 4000 for line in run.lines)
    assert analysed(run)["steps"]["count"] >= 9
    # with traced calls, the calls of the framework take more space
    assert stacks is True or sum(path.stat().st_size for path in run.result.rglob("*")) < 60e6


def test_folders_and_scripts_whose_names_are_no_text(tmp_path):
    """The path has bytes that are not UTF-8, a newline, quotes and a terminal's control sequence."""
    place = os.fsencode(tmp_path) + b"/\xff\xfe odd\n'\"\x1b[2J"
    os.mkdir(place)
    script = place + b"/job\xe9.py"
    with open(script, "w") as stream:
        stream.write(training())
    outcomes = []
    for options in None, {"start": True, "analyse": "sync", "with_stack": True}:
        command = [os.fsencode(sys.executable), script]
        done = subprocess.run(
            command, env=environment(options), cwd=place, capture_output=True, timeout=200, check=False
        )
        outcomes.append((done.returncode, done.stdout))
    assert outcomes[0] == outcomes[1] and outcomes[0][0] == 0, done.stderr
    assert b"\x1b" not in done.stderr
    names = os.listdir(place + b"/data")
    assert len(names) == 1 and os.path.exists(place + b"/data/" + names[0] + b"/summary.json"), done.stderr


def test_a_wall_clock_that_is_set_during_the_job(twice, tmp_path_factory, tmp_path):
    clock = build_one(tmp_path_factory.mktemp("clock"), "libwall_clock.so", ("wall_clock.c",))
    env = {"LD_PRELOAD": str(clock), "CLOCK_EVERY": "3"}
    run = twice(training("time.time(); time.sleep(0.3)" + MORE), options={"overhead_budget": 0}, env=env)
    assert run.code == 0, run.err
    steps = analysed(run)["steps"]
    assert steps["count"] >= 106
    assert all(0 < step["duration_us"] < 60e6 for step in steps.get("list", []))


def test_a_user_without_an_entry_and_without_a_home():
    """Containers often run as a user who has no entry in /etc/passwd."""
    if os.getuid() != 0:
        pytest.skip("only root can be another user")
    try:
        subprocess.run([sys.executable, "-c", "import torch"], user=54321, group=54321, cwd="/", check=True)
    except (PermissionError, subprocess.CalledProcessError):
        pytest.skip("others may not use this interpreter")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        outcomes = []
        for options in None, {"start": True, "output_path": "~/data", "report": True}:
            variables = environment(options, HOME="/nonexistent", TMPDIR=name, TORCHINDUCTOR_CACHE_DIR=name)
            for key in ("USER", "LOGNAME", "USERNAME"):
                variables.pop(key, None)
            done = subprocess.run(
                [sys.executable, "-c", training()],
                env=variables,
                cwd=folder,
                capture_output=True,
                text=True,
                user=54321,
                group=54321,
                extra_groups=[],
                timeout=200,
                check=False,
            )
            outcomes.append((done.returncode, done.stdout))
        assert outcomes[0] == outcomes[1] and outcomes[0][0] == 0, done.stderr
        assert "cannot write to output_path" in done.stderr
        assert list(folder.glob("*_ascend_ms/summary.json")), done.stderr


@pytest.mark.parametrize("end", ["", "sys.exit(3)"])
def test_process_1_of_a_container(tmp_path, end):
    command = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        sys.executable,
        "-c",
        training(f"print(os.getpid())\n{end}"),
    ]
    outcomes = []
    for options in None, {"start": True, "output_path": str(tmp_path / "data")}:
        done = subprocess.run(
            command, env=environment(options), cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
        )
        if "unshare" in done.stderr:
            pytest.skip(f"no namespaces here: {done.stderr}")
        outcomes.append((done.returncode, done.stdout))
    assert outcomes[0] == outcomes[1] and outcomes[0][1].endswith("\n1\n"), done.stderr
    (result,) = (tmp_path / "data").glob("*_ascend_ms")

    class Ended:
        pass

    Ended.result = result
    assert analysed(Ended)["steps"]["count"] == 6


@pytest.mark.parametrize("event", ["removed", "renamed", "replaced by a file", "read-only"])
def test_a_directory_that_changes_under_the_job(twice, tmp_path, mounted, event):
    """The job removes, renames or replaces its output directory, or makes the file system read-only."""
    disk = mounted("-t", "tmpfs", "-o", "size=16m", "tmpfs")
    happens = {
        "removed": "shutil.rmtree(place)",
        "renamed": "os.rename(place, place + '-away')",
        "replaced by a file": "shutil.rmtree(place); open(place, 'w').close()",
        "read-only": "subprocess.run(['mount', '-o', 'remount,ro', disk], stderr=subprocess.DEVNULL)",
    }[event]
    after = (
        f"import shutil, subprocess; disk = {str(disk)!r}; place = disk + '/data'\nif os.path.isdir(place): {happens}"
    )
    run = twice(
        training(after + MORE), options={"output_path": str(disk / "data"), "overhead_budget": 0, "analyse": "sync"}
    )
    assert run.code == 0 and "Traceback" not in run.err, run.err


def test_a_disk_of_a_megabyte(twice, mounted):
    disk = mounted("-t", "tmpfs", "-o", "size=1m", "tmpfs")
    options = {"output_path": str(disk / "data"), "overhead_budget": 0, "analyse": "sync"}
    run = twice(training("for number in range(3000): loss = step()" + MORE), options=options, timeout=200)
    assert run.code == 0 and len(run.lines) >= 1, run.err


THREADS = """
import queue
def batch(done): done.put(model(torch.ones(2, 4)).sum().item())
for number in range(1000):  # a thread for each batch
    done = queue.Queue()
    thread = threading.Thread(target=batch, args=(done,)); thread.start(); thread.join()
total = done.get()
held, stop = [], threading.Event()
def wait():
    with torch.no_grad(): model(torch.ones(2, 4))
    stop.wait()
threading.stack_size(1 << 16)
try:
    for number in range(4000):
        held.append(threading.Thread(target=wait)); held[-1].start()
except RuntimeError:
    held.pop()
print(len(held) > 500, total, flush=True)
stop.set()
for thread in held: thread.join()
print(step())
"""


def test_four_thousand_threads_and_a_thread_for_each_batch(twice):
    run = twice(training(THREADS), options={"overhead_budget": 0}, timeout=250)
    assert run.code == 0, run.err
    assert analysed(run)["steps"]["count"] >= 7


def test_no_network_and_no_proc(tmp_path):
    """Without /proc, ms-profiler knows nothing of the machine. Without a network, it lacks nothing."""
    shell = f"umount -l /proc 2>/dev/null; exec {sys.executable} -c '{training()}'"
    outcomes = []
    for options in None, {"start": True, "output_path": str(tmp_path / "data"), "analyse": "off"}:
        done = subprocess.run(
            ["unshare", "--mount", "--net", "sh", "-c", shell],
            env=environment(options),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        if "unshare" in done.stderr:
            pytest.skip(f"no namespaces here: {done.stderr}")
        outcomes.append(type("Run", (), {"code": done.returncode, "out": done.stdout, "err": done.stderr}))
    unharmed(outcomes[1], outcomes[0])
    assert outcomes[0].code == 0, done.stderr
    (result,) = (tmp_path / "data").glob("*_ascend_ms")
    shutil.rmtree(result)
