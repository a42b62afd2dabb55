"""The identity of a process in its job comes from the environment and /proc."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ms_profiler.job import process
from ms_profiler.store import alive

AGENT = Path(__file__).parent.parent / "agent"


POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
WORKER = {"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "16"}


def place(environ):
    """Return (rank, world size, local rank, device) of a process with this environment."""
    found = process.identity(environ)
    return found.rank, found.world_size, found.local_rank, found.device_id


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (0, 1, 0, 0)),
        ({"DEVICE_ID": "5"}, (0, 1, 0, 5)),
        # msrun
        (WORKER | {"RANK_ID": "9", "RANK_SIZE": "16", "DEVICE_ID": "1", "MS_NODE_ID": "9"}, (9, 16, 1, 1)),
        # a worker that a user starts by hand: its node's number counts
        (WORKER | {"RANK_ID": "7", "MS_NODE_ID": "9"}, (9, 16, 9, 9)),
        # msrun on several nodes without --node_rank: the first case is on the scheduler's node, the second is
        # on another node
        (WORKER | {"RANK_ID": "0", "RANK_SIZE": "16", "DEVICE_ID": "1"}, (1, 16, 1, 1)),
        (WORKER | {"RANK_SIZE": "16", "DEVICE_ID": "3"}, (3, 16, 3, 3)),
        (WORKER | {"RANK_ID": "5", "DEVICE_ID": "1"}, (5, 16, 1, 1)),
        ({"RANK_ID": "3", "MS_WORKER_NUM": "4"}, (3, 4, 3, 3)),
        # a rank table and a shell script, which give no number of ranks
        ({"RANK_ID": "3"}, (3, 4, 3, 3)),
        # torchrun
        ({"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1"}, (9, 16, 1, 1)),
        # mpirun of Open MPI, then of MPICH
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}, (1, 2, 0, 0)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, (1, 2, 1, 1)),
        # mpirun of MVAPICH, then srun --mpi=pmix
        ({"MV2_COMM_WORLD_RANK": "3", "MV2_COMM_WORLD_SIZE": "4", "MV2_COMM_WORLD_LOCAL_RANK": "1"}, (3, 4, 1, 1)),
        ({"PMIX_RANK": "3", "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1"}, (3, 4, 1, 1)),
        # a pod of Kubeflow's PyTorchJob, then of Volcano's plugin for PyTorch
        (POD | {"RANK": "2", "WORLD_SIZE": "3", "PET_NNODES": "3", "PET_NODE_RANK": "2"}, (2, 3, 0, 0)),
        (POD | {"RANK": "1", "WORLD_SIZE": "3", "VC_TASK_INDEX": "0", "VK_TASK_INDEX": "0"}, (1, 3, 0, 0)),
        # torchrun in such a pod, then mpirun of Kubeflow's MPIJob, then MindSpore's operator
        (POD | {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "PET_NODE_RANK": "1"}, (9, 16, 1, 1)),
        (
            POD | {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
            (5, 8, 1, 1),
        ),
        (POD | WORKER | {"MS_NODE_ID": "9", "DEVICE_ID": "1"}, (9, 16, 1, 1)),
        # srun, then the shell of a batch script, which is not a rank
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1"}, (5, 8, 1, 1)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (0, 1, 0, 0)),
        # the framework's own variables count before the launcher's
        ({"RANK_ID": "2", "RANK_SIZE": "4", "OMPI_COMM_WORLD_RANK": "7", "OMPI_COMM_WORLD_SIZE": "8"}, (2, 4, 2, 2)),
        # invalid values
        ({"RANK_ID": "x", "RANK": "-1", "OMPI_COMM_WORLD_RANK": "9" * 30, "PMI_RANK": "\u0661"}, (0, 1, 0, 0)),
    ],
)
def test_the_place_in_the_job(environ, expected):
    assert place(environ) == expected


@pytest.mark.parametrize(
    ("environ", "known"),
    [
        ({}, True),
        ({"RANK_ID": "3"}, True),
        (WORKER | {"MS_NODE_ID": "3"}, True),
        (WORKER | {"RANK_ID": "0", "DEVICE_ID": "3"}, False),
        (WORKER | {"DEVICE_ID": "3"}, False),
    ],
)
def test_a_rank_that_is_given_out_later_is_not_known(environ, known):
    found = process.identity(environ)
    assert found.known is known
    # it is unknown whether this rank is selected
    assert found.selected("9") is not known
    assert found.selected("all")


def test_a_job_of_one_process_is_named_after_it():
    assert process.identity({}).job == f"{os.getpid()}_{alive.process_start()}"


def test_the_ranks_of_a_launch_share_its_name():
    names = {
        process.identity({"RANK_ID": str(rank), "RANK_SIZE": "4", "MS_SCHED_PORT": "8118"}).job for rank in range(4)
    }
    assert len(names) == 1
    (name,) = names
    assert name == f"8118_{os.getppid()}_{alive.process_start(os.getppid())}"


def test_a_launcher_that_names_every_launch_needs_no_parent():
    environ = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "3"}
    assert process.identity(environ).job == "77_3"


def test_the_name_of_a_job_fits_a_file():
    environ = {"PMIX_RANK": "1", "PMIX_NAMESPACE": "prte/../" + "x" * 500}
    name = process.identity(environ).job
    assert len(name) <= 100
    assert "/" not in name
    assert "." not in name


@pytest.mark.parametrize(
    ("spec", "world", "ranks"),
    [
        ("all", 4, [0, 1, 2, 3]),
        ("0,2-3,9", 5, [0, 2, 3]),
        ("sample:1", 8, [0]),
        ("sample:2", 8, [0, 4]),
        ("sample:3", 8, [0, 2, 5]),
        ("sample:8", 8, list(range(8))),
        ("sample:9", 8, list(range(8))),
    ],
)
def test_selected(spec, world, ranks):
    assert [rank for rank in range(world) if process.selected(spec, rank, world)] == ranks


@pytest.mark.parametrize("world", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 999])
def test_a_sample_has_the_requested_size(world, count):
    assert sum(process.selected(f"sample:{count}", rank, world) for rank in range(world)) == min(count, world)


def test_a_process_is_known_by_its_start():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = alive.process_start(child.pid)
    assert started >= alive.process_start() > 0
    assert alive.is_alive(child.pid, started)
    assert not alive.is_alive(child.pid, started + 1)
    child.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while alive.is_alive(child.pid, started):  # a zombie is not alive
        assert time.monotonic() < deadline
    child.communicate()
    assert alive.process_start(child.pid) == 0
    assert not alive.is_alive(child.pid, 0)


def test_the_boot_has_a_name():
    assert alive.boot_id() == alive.boot_id() != ""


def test_output_is_made_at_the_requested_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert process.choose_output("./data") == (str(tmp_path / "data"), None)
    assert process.choose_output("data", base=str(tmp_path / "base")) == (str(tmp_path / "base" / "data"), None)
    assert process.choose_output("~/data") == (str(tmp_path / "home" / "data"), None)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o750
    assert list((tmp_path / "data").iterdir()) == []


def test_a_link_is_refused_but_not_one_above(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    for path in (tmp_path / "link", f"{tmp_path}/link/"):
        chosen, line = process.choose_output(str(path))
        assert chosen == str(tmp_path / "temporary")
        assert "it is a symbolic link" in line
        assert str(tmp_path / "link") in line
        assert chosen in line
    assert process.choose_output(str(tmp_path / "link" / "data")) == (str(tmp_path / "link" / "data"), None)


@pytest.mark.parametrize("path", ["/dev/null/data", "a\0b", "\ud800", "x" * 300, "/proc/data"])
def test_an_unwritable_path_falls_back_to_the_temporary_directory(tmp_path, monkeypatch, path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    chosen, line = process.choose_output(path)
    assert chosen == str(tmp_path)
    assert line.startswith("cannot write to output_path ")
    assert line.endswith(f"writing to {tmp_path} instead")
    assert line.isprintable()


def test_without_a_temporary_directory_there_is_none(monkeypatch):
    monkeypatch.setenv("TMPDIR", "/dev/null/temporary")
    chosen, line = process.choose_output("/dev/null/data")
    assert chosen is None
    assert "/dev/null/data" in line
    assert "/dev/null/temporary" in line
    assert line.endswith("profiling is off")


def test_a_current_directory_that_is_gone(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    gone.rmdir()
    assert process.choose_output("data")[0] == str(tmp_path)
    assert process.choose_output(str(tmp_path / "data")) == (str(tmp_path / "data"), None)
    monkeypatch.chdir(tmp_path)
