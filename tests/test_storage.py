"""`ms-profiler cluster` reads results in an object store, and writes the same files as for a local directory."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import environment
from launches import TOOLS
from made_ranks import make
from ms_profiler.cli import main
from perfetto_reader import read

data = os.environ.get("MS_PROFILER_TEST_DATA")
pytestmark = pytest.mark.skipif(not data, reason="MS_PROFILER_TEST_DATA names no real results")


@pytest.fixture
def job(tmp_path):
    make(Path(data) / "level1", tmp_path / "job", 9, 6, slow=[4], factor=3, missing=[7])
    return tmp_path / "job"


def contents(files):
    """Return the contents of a job's files by name, without what depends on the order in which ranks were read."""
    found = {}
    for name, text in files.items():
        if name.endswith(".csv"):
            found[name] = sorted(csv.reader(text.splitlines()))
        elif "matrix" in name:  # the last digit of sums over ranks depends on the order
            found[name] = {group: set(steps) for group, steps in json.loads(text).items()}
        else:
            known = json.loads(text)
            found[name] = {key: sorted(map(str, each)) for key, each in known.items()} if "group" in name else known
    return found


def facts(text):
    """Return the JSON output about a job, with names of results in place of their full paths."""
    found = json.loads(text)
    for row in found["ranks"]:
        row["directory"] = os.path.basename(row["directory"])
    return found


def test_a_job_in_a_store_is_that_of_a_directory(job, tmp_path, capsys):
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.put(str(job), "/job", recursive=True)
    try:
        assert main(["cluster", str(job), "--json", "--output", str(tmp_path / "here")]) == 0
        here = facts(capsys.readouterr().out)
        assert main(["cluster", "memory://job", "--json"]) == 0
        assert facts(capsys.readouterr().out) == here
        assert here["missing_ranks"] == [7] and [late["rank"] for late in here["late"]] == [4]
        # the command writes its files to the store that holds the results
        there = {
            Path(path).name: store.cat_file(path).decode() for path in store.ls("/job/cluster_analysis_output", False)
        }
        folder = tmp_path / "here" / "cluster_analysis_output"
        assert contents(there) == contents({path.name: path.read_text() for path in folder.iterdir()})
        assert main(["cluster", "memory://nothing"]) == 2
        assert "memory://nothing holds no recording." in capsys.readouterr().err
    finally:
        store.rm("/job", recursive=True)


def test_a_store_of_no_kind_is_one_line(capsys):
    pytest.importorskip("fsspec")
    assert main(["cluster", "nosuch://bucket/job"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ms-profiler: nosuch://bucket/job: Protocol not known: nosuch")


def test_a_package_that_is_missing_is_one_line():
    program = "import sys; sys.modules['s3fs'] = None; from ms_profiler.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", program, "cluster", "s3://bucket/job"], capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("ms-profiler: s3://bucket/job needs a package") and "pip install 'ms-profiler[s3]'" in line


@pytest.mark.slow
def test_a_job_in_s3(job, tmp_path):
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    import s3fs

    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        address = "http://127.0.0.1:{1}".format(*server.get_host_and_port())
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
        variables = environment(None, AWS_ENDPOINT_URL=address, **keys)
        store = s3fs.S3FileSystem(endpoint_url=address, key="key", secret="secret")
        store.mkdir("runs")
        store.put(str(job), "runs/job", recursive=True)
        for rank in range(2):
            store.put(f"{data}/level1/rank{rank}_ascend_pt", f"runs/two/rank{rank}_ascend_pt", recursive=True)

        def run(*words):
            command = [TOOLS / "ms-profiler", *words]
            return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)

        here = run("cluster", job, "--json", "--output", tmp_path / "here")
        there = run("cluster", "s3://runs/job", "--json")
        assert (there.returncode, there.stderr) == (0, "")
        assert facts(there.stdout) == facts(here.stdout)
        store.invalidate_cache()
        found = {
            Path(path).name: store.cat_file(path).decode() for path in store.ls("runs/job/cluster_analysis_output")
        }
        folder = tmp_path / "here" / "cluster_analysis_output"
        assert contents(found) == contents({path.name: path.read_text() for path in folder.iterdir()})
        # `merge` reads results from the store, too
        done = run("merge", "s3://runs/two", "--output", tmp_path / "trace.pftrace")
        assert done.returncode == 0, done.stderr
        tracks = read(tmp_path / "trace.pftrace").tracks.values()
        assert sorted(each.process.process_name for each in tracks if each.HasField("process")) == ["Rank 0", "Rank 1"]
        missing = run("cluster", "s3://none/job")
        assert missing.returncode == 2 and len(missing.stderr.splitlines()) == 1, missing.stderr
    finally:
        server.stop()
