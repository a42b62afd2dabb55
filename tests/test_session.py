"""A session does not affect the job, and its files are complete however the job ends."""

import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import PROGRAMS, environment, eventually, launcher
from guests import OFF
from ms_profiler import cli
from ms_profiler.analysis.driver import engine

IMPORT = "import mindspore\n"
#: text that no file may contain; the job has it as an argument, in the environment and in a row of data
CANARY = "canary-7d1f"
TRAINS = (
    "import mindspore.dataset as ds\n"
    f"for _ in ds.GeneratorDataset(lambda: iter([('{CANARY}',)]), ['column-x']).create_tuple_iterator():\n"
    "    print('trained')\n"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a finished job that ran in a folder with a module named like a library that the analysis needs."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "polars.py").write_text("raise SystemExit('the wrong polars')")
    return launcher(folder)(IMPORT + TRAINS, CANARY, options={"analyse": "sync"}, env={"API_TOKEN": CANARY})


def test_two_lines_and_a_result(trained):
    assert (trained.code, trained.out) == (0, "trained\n")
    first, last = trained.lines
    assert str(trained.result) in first and "ms-profiler analyse" in first
    assert str(trained.result) in last and "ms-profiler summary" in last
    assert trained.summary["run"]["processes"][0]["state"] == "exit"


@pytest.mark.slow
def test_quiet_keeps_the_lines_for_the_record(job):
    run = job(IMPORT, options={"quiet": True, "analyse": "sync"})
    assert run.lines == []
    assert any("recording to" in message for message in run.summary["messages"])


def test_only_rank_0_speaks(job):
    run = job(IMPORT, env={"RANK_ID": "1"})
    assert run.lines == []
    assert (run.result / "profiler_info_1.json").exists()


def test_a_rank_that_was_not_selected_leaves_no_file(job):
    run = job(IMPORT, options={"ranks": [1]})
    assert (run.code, run.lines, run.results) == (0, [], [])


@pytest.mark.parametrize("mode", ["off", "async"])
def test_analysis_can_be_left_out_or_left_behind(job, mode):
    run = job(IMPORT, options={"analyse": mode})
    assert "ms-profiler" in run.lines[-1]
    if mode == "off":
        assert not (run.result / "summary.json").exists()
    else:
        eventually((run.result / "summary.json").exists)


def test_a_module_beside_the_job_is_not_imported_by_the_analysis(trained):
    assert (trained.output.parent / "polars.py").exists()
    assert trained.summary["run"]["processes"][0]["state"] == "exit"


def test_files_are_private_to_user_and_group(trained):
    for folder, _, files in os.walk(trained.result):
        assert os.stat(folder).st_mode & 0o777 == 0o750, folder
        for name in files:
            path = os.path.join(folder, name)
            assert os.stat(path).st_mode & 0o777 == 0o640, path


def test_no_secret_is_written(trained):
    for folder, _, files in os.walk(trained.result):
        for name in files:
            with open(os.path.join(folder, name), "rb") as stream:
                assert CANARY.encode() not in stream.read(), name


EXITS = {
    "exit": ("raise SystemExit(7)", 7),
    "exception": ("raise KeyError('x')", 1),
    "_exit": ("import os; os._exit(3)", 3),
    "abort": ("import os; os.abort()", -signal.SIGABRT),
    "terminated": ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM),
    "killed": ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
    "interrupted": ("import os; os.kill(os.getpid(), 2); import time; time.sleep(10)", -signal.SIGINT),
    "thread exits": ("import threading; t = threading.Thread(target=lambda: exit(5)); t.start(); t.join()", 0),
}
STATES = {"exit": "exit code 7", "exception": "exception: KeyError", "thread exits": "exit"}
#: ways to end that run as slow tests, because another test covers the same code
VARIANTS = ("_exit", "abort", "killed", "thread exits", "terminated", "interrupted")


@pytest.mark.parametrize("how", [pytest.param(how, marks=[pytest.mark.slow] * (how in VARIANTS)) for how in EXITS])
def test_exit_code_is_the_jobs_and_the_end_is_recorded(job, how):
    statement, code = EXITS[how]
    run = job(f"{IMPORT}print('trained', flush=True)\n{statement}", options={"analyse": "sync"})
    assert (run.code, run.out) == (code, "trained\n"), run.err
    if not (run.result / "summary.json").exists():
        engine.analyse([run.result])
    state = run.summary["run"]["processes"][0]["state"]
    expected = "exception: KeyboardInterrupt" if how == "interrupted" else STATES.get(how, "killed or vanished")
    assert state == expected


def test_killed_run_yields_its_steps_and_the_same_bytes_either_way(job, tmp_path):
    script = tmp_path / "killed.py"
    script.write_text((PROGRAMS / "model_loop.py").read_text() + "\nimport os; os.kill(os.getpid(), 9)")
    run = job(script, "graph")
    assert run.code == -signal.SIGKILL
    assert sorted(os.listdir(run.recorded)) == ["FRAMEWORK", "logs"]
    command = [sys.executable, "-m", "ms_profiler"]
    shown = subprocess.run(
        [*command, "summary", str(run.recorded)], env=environment(), capture_output=True, text=True, check=True
    )
    assert "20" in shown.stdout and "killed" in shown.stdout
    assert run.summary["steps"]["count"] == 20
    assert (run.summary["framework"]["mode"], run.summary["framework"]["device"]) == ("graph", "CPU")
    files = [path for path in run.result.rglob("*") if path.is_file() and "FRAMEWORK" not in path.parts]
    before = {path: path.read_bytes() for path in files if "logs" not in path.parts}
    subprocess.run([*command, "analyse", str(run.result)], env=environment(), check=True, capture_output=True)
    assert {path: path.read_bytes() for path in before} == before


MEANWHILE = """
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: print(__import__("torch").name, flush=True))
from ms_profiler.job import hooks
add = hooks.Hooks.add
def late(self, name, *rest):
    if name == "mindspore":
        os.kill(os.getpid(), signal.SIGUSR1)
    return add(self, name, *rest)
hooks.Hooks.add = late
import mindspore
print("trained")
"""


def test_a_signal_handler_imports_another_framework_while_one_is_hooked(guest):
    (guest.folder / "torch.py").write_text("name = 'imported'")
    process = guest.start(MEANWHILE, OFF, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"imported\ntrained\n")


def test_fork_child_records_beside_its_parent(job):
    program = """
import os, sys
import mindspore as ms
from mindspore import nn
ms.set_device("CPU")
class Child(nn.Cell):
    def construct(self, x): return x
class Parent(nn.Cell):
    def construct(self, x): return x
parent, child = Parent(), Child()
pid = os.fork()
net = parent if pid else child
for _ in range(500):
    net(1)
if not pid:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    run = job(program, options={"overhead_budget": 0})
    assert run.code == 0, run.err
    names = {item["name"]: item["count"] for item in run.summary["modules"]}
    assert (names["Parent"], names["Child"]) == (500, 500)
    assert sorted(item["role"] for item in run.summary["run"]["processes"]) == ["fork", "main"]


@pytest.mark.slow
def test_spawn_child_joins_the_result_of_its_parent(job, tmp_path):
    script = tmp_path / "spawns.py"
    script.write_text("""
import multiprocessing
import mindspore as ms
from mindspore import nn

def work():
    nn.Identity()(ms.Tensor(1.0))

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
    raise SystemExit(process.exitcode)
""")
    run = job(script)
    assert run.code == 0, run.err
    assert sorted(item["role"] for item in run.summary["run"]["processes"]) == ["main", "spawn"]
    assert [item["name"] for item in run.summary["modules"]] == ["Identity"]


def test_subprocess_is_a_job_of_its_own(job, tmp_path):
    program = (
        "import mindspore, subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import mindspore'], check=True)"
    )
    run = job(program)
    assert run.code == 0
    assert len(run.results) == 2
    assert all((result / "summary.json").exists() for result in run.results)


@pytest.mark.slow
def test_ranks_of_one_launch_share_one_analysis(tmp_path):
    """When both ranks have ended, the last one starts the only analysis, which covers both."""
    output = tmp_path / "data"
    program = "import mindspore, sys; print('up', flush=True); sys.stdin.readline()"
    options = {"start": True, "output_path": str(output)}
    ranks = []
    for rank in range(2):
        variables = environment(options, RANK_ID=str(rank), RANK_SIZE="2", MS_WORKER_NUM="2", MS_ROLE="MS_WORKER")
        variables |= {"MS_SCHED_HOST": "127.0.0.1", "MS_SCHED_PORT": "8118"}
        ranks.append(
            subprocess.Popen(
                [sys.executable, "-c", program], env=variables, stdin=-1, stdout=-1, stderr=-1, text=True, cwd=tmp_path
            )
        )
    for rank in ranks:
        assert rank.stdout.readline() == "up\n"
    ranks[0].communicate("\n", timeout=60)
    assert not list(output.glob("*/summary.json"))
    ranks[1].communicate("\n", timeout=60)
    assert sorted(json.loads(path.read_text())["rank"] for path in output.glob("*/summary.json")) == [0, 1]
    assert not list(output.glob(".ms_profiler*"))


WORKERS = """
import os, signal, sys, torch
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self): return 16
    def __getitem__(self, number): return torch.nn.functional.relu(torch.ones(4) * number)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
loader = DataLoader(Numbers(), batch_size=4, num_workers=2, persistent_workers=True)
for batch in loader:
    optimizer.zero_grad(); model(batch).sum().backward(); optimizer.step()
if sys.argv[1:]:
    import multiprocessing
    victim = min(multiprocessing.active_children(), key=lambda child: child.pid)
    os.kill(victim.pid, signal.SIGKILL)
    os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
print("trained")
"""


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_workers_that_live_when_the_job_ends_are_ended_by_it_and_others_are_killed(job, tmp_path, capsys, killed):
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    run = job(script, *["kill"] * killed)
    engine.analyse([run.result])
    states = [process["state"] for process in run.summary["run"]["processes"] if process["role"] == "fork"]
    assert sorted(states) == ["ended by its parent", "killed or vanished" if killed else "ended by its parent"]
    cli.main(["summary", str(run.result)])
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("torch "))
    assert "ended by its parent" not in line, "so a DataLoader ends its workers"
    assert ("): killed or vanished" in line) is killed
