"""`ms-profiler collect` copies the results of a machine to a shared place, completely or not at all."""

import os

import pytest
from conftest import PROGRAMS, eventually
from launches import TOOLS, free_port, launched
from ms_profiler.analysis.cluster import gathered_files
from ms_profiler.cli import main
from ms_profiler.store import alive
from store_builder import training, write_training

PROGRAM = """
import os
import torch
os.chdir("/")
linear = torch.nn.Linear(4, 4)
for _ in range(3):
    linear(torch.ones(2, 4)).sum().backward()
"""


def content(folder):
    """Return {relative path: bytes} of all files below a folder."""
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_results_of_machines_meet_in_one_directory(tmp_path, capsys):
    shared = tmp_path / "shared"
    for machine in range(2):
        write_training(tmp_path / f"data{machine}", name=f"host{machine}_1_20260101000000123_ascend_ms", steps=3)
        assert main(["collect", str(tmp_path / f"data{machine}"), str(shared)]) == 0
        assert capsys.readouterr().out.startswith(f"1 result in {shared}; ")
    for machine in range(2):
        name = f"host{machine}_1_20260101000000123_ascend_ms"
        assert content(shared / name) == content(tmp_path / f"data{machine}" / name)
    assert len(list(shared.iterdir())) == 2
    # the second call copies only changed files, such as the files of a later analysis
    (tmp_path / "data0" / "host0_1_20260101000000123_ascend_ms" / "new").write_text("later")
    assert main(["collect", str(tmp_path / "data0"), str(tmp_path / "data1"), str(shared)]) == 0
    assert capsys.readouterr().out == f"2 results in {shared}; 1 file copied, 0.0 MB.\n"
    assert (shared / "host0_1_20260101000000123_ascend_ms" / "new").read_text() == "later"


def test_copy_that_fails_leaves_no_result(tmp_path, capsys, monkeypatch):
    path = write_training(tmp_path / "data", steps=3)
    copied = []

    def full(source, target, follow_symlinks):
        copied.append(source)
        if len(copied) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(gathered_files.shutil, "copy2", full)
    monkeypatch.setattr(gathered_files.os, "replace", lambda source, target: None)
    assert main(["collect", str(tmp_path / "data"), str(tmp_path / "shared")]) == 2
    assert f"{path.name} cannot be copied to " in capsys.readouterr().err
    assert not (tmp_path / "shared" / path.name).exists()
    assert main(["cluster", str(tmp_path / "shared"), "--no-files"]) == 2


def test_running_jobs_links_and_addresses_are_left_out(tmp_path, capsys):
    path = write_training(tmp_path / "data", steps=3)
    (path / "link").symlink_to("/etc/hostname")
    trace = tmp_path / "data" / "rank0.pt.trace.json"
    assert main(["collect", str(path), str(tmp_path / "shared")]) == 0
    assert not os.path.lexists(tmp_path / "shared" / path.name / "link")
    trace.write_text('{"traceEvents": []}')
    assert main(["collect", str(trace), str(tmp_path / "shared")]) == 0
    assert (tmp_path / "shared" / trace.name).read_text() == trace.read_text()
    capsys.readouterr()
    assert main(["collect", "memory://somewhere/x_ascend_ms", str(tmp_path / "shared")]) != 0
    assert "no directory of this machine" in capsys.readouterr().err


def test_result_that_is_being_recorded_is_left_out(tmp_path, capsys):
    own = os.getpid()
    start, boot = alive.process_start(own), alive.boot_id()
    store = training(tmp_path / "data", steps=3, boot_id=boot, pid=own)
    process = store.processes[0]
    process.pid = process.info.pid = own
    process.info.state, process.info.end, process.info.process_start = "running", "", start
    store.write()
    assert main(["collect", str(tmp_path / "data"), str(tmp_path / "shared")]) == 0
    assert "is still being recorded; it is left out.\n0 results in" in capsys.readouterr().out


def test_results_go_to_an_object_store_and_are_analysed_there(tmp_path, capsys):
    fsspec = pytest.importorskip("fsspec")
    path = write_training(tmp_path / "data", steps=3)
    assert main(["collect", str(tmp_path / "data"), "memory://bucket/job"]) == 0
    files = fsspec.filesystem("memory")
    names = [name for name in files.find("/bucket/job") if name.endswith("run_info.json")]
    assert names == [f"/bucket/job/{path.name}/FRAMEWORK/run_info.json"]
    capsys.readouterr()
    assert main(["collect", str(tmp_path / "data"), "memory://bucket/job"]) == 0
    assert "; 0 files copied" in capsys.readouterr().out


@pytest.mark.slow
def test_results_of_a_job_are_copied_when_it_ends(tmp_path, capsys):
    """The last rank to end waits for the analysis of all results on its machine, and copies them."""
    shared = tmp_path / "shared"
    options = {"start": True, "output_path": str(tmp_path / "data"), "collect": str(shared)}
    command = [TOOLS / "torchrun", "--nproc_per_node=2", f"--master_port={free_port()}"]
    launched([[*command, PROGRAMS / "late_ranks_torch.py", "none", "1", "6"]], tmp_path, options)
    results = sorted(path.name for path in (tmp_path / "data").glob("*_ascend_ms"))
    eventually(lambda: sorted(path.name for path in shared.glob("*")) == results)
    assert len(results) == 2
    for name in results:
        assert (shared / name / "rank.json").read_bytes() == (tmp_path / "data" / name / "rank.json").read_bytes()
    assert main(["cluster", str(shared), "--no-files"]) == 0
    assert "No result of" not in capsys.readouterr().out


@pytest.mark.parametrize("analyse", ["sync", pytest.param("off", marks=pytest.mark.slow)])
def test_result_is_copied_to_a_place_beside_the_begin_of_the_job(analyse, job, tmp_path):
    run = job(PROGRAM, options={"collect": "./shared", "analyse": analyse})
    assert run.code == 0, run.err
    copied = tmp_path / "shared" / run.result.name
    eventually(lambda: copied.exists())
    assert (copied / "summary.json").exists() == (analyse == "sync")
    assert f"copied to {'./shared in the background' if analyse == 'off' else tmp_path / 'shared'}" in run.err


def test_place_that_cannot_be_written_costs_the_job_a_line(job, tmp_path):
    (tmp_path / "shared").write_text("a file")
    run = job(PROGRAM, options={"collect": "shared", "analyse": "sync"})
    assert (run.code, run.out) == (0, "")
    assert f"cannot be copied to {tmp_path / 'shared'} (Not a directory)." in run.err
    assert (run.result / "summary.json").exists()
