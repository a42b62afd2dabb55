"""A job that starts and ends many processes never exceeds `max_disk`."""

import os
import threading

import pytest
from conftest import PROGRAMS
from ms_profiler.store import account, layout

pytest_plugins = ["recorder_fixtures"]
pytestmark = pytest.mark.slow

MOST = 1_000_000


def size(folder):
    """Return the total size of all files in a folder in bytes; a file that is renamed meanwhile counts once."""
    sizes = {}
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                found = os.lstat(os.path.join(path, name))
                sizes[found.st_ino] = found.st_size
            except FileNotFoundError:
                pass
    return sum(sizes.values())


@pytest.fixture
def watched(job, tmp_path):
    """Return a function that runs a job, and returns the run and the largest size of its results in bytes."""

    def run(*words, options):
        sizes, ended = [], threading.Event()
        output = tmp_path / "data"

        def look():
            while not ended.wait(0.02):
                sizes.append(size(options.get("output_path", output)))

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            found = job(PROGRAMS / "epochs.py", *words, options=options)
        finally:
            ended.set()
            watcher.join()
        return found, max(sizes)

    return run


@pytest.mark.parametrize("words", [("60", "2", "4"), ("2", "0", "40", "8")], ids=["60 epochs", "eight processes"])
def test_processes_that_come_and_go_share_the_limit(watched, job, words):
    bare = job(PROGRAMS / "epochs.py", *words, profile=False)
    run, largest = watched(*words, options={"max_disk": "1MB"})
    # the processes may print at the same time, so only the characters are compared, not their order
    assert (run.code, sorted(run.out)) == (bare.code, sorted(bare.out)), run.err
    assert MOST / 4 < largest <= MOST
    counted = account.read(layout.account_path(str(run.result)))
    reasons = {entry["what"]: entry["why"] for entry in run.summary["not_collected"]}
    processes = [what for what in reasons if "processes that the job started" in what]
    assert bool(processes) == bool(counted.refused)
    assert all(what.startswith(f"{counted.refused} ") and "max_disk" in reasons[what] for what in processes)
    epochs, _, batches = map(int, words[:3])
    assert run.summary["steps"]["count"] == epochs * batches
    # each epoch starts its own workers, if there are any
    assert ("worker-starts" in {item["cause"] for item in run.summary["advice"]}) == (words[1] == "2")


def test_a_disk_that_has_less_free_than_max_disk_keeps_nine_tenths_of_it(watched, mounted):
    disk = mounted("-t", "tmpfs", "-o", "size=8m", "tmpfs")
    run, largest = watched("4", "1", "100", options={"output_path": str(disk), "max_disk": "1GB"})
    assert run.code == 0, run.err
    assert 0 < largest <= 8 * 1024 * 1024 / 10


def test_blocks_reserved_for_root_are_not_free(watched, mounted, tmp_path):
    """ext4 reserves some of its blocks for root. Even a job that runs as root does not use them."""
    image = tmp_path / "image"
    image.write_bytes(b"")
    os.truncate(image, 40_000_000)
    made = os.system(f"mkfs.ext4 -q -m 50 {image} 2>/dev/null")
    if made:
        pytest.skip("needs mkfs.ext4")
    disk = mounted("-o", "loop", str(image))
    free = os.statvfs(disk)
    assert free.f_bavail < 0.6 * free.f_bfree
    run, largest = watched("4", "1", "100", options={"output_path": str(disk), "max_disk": "1GB"})
    assert run.code == 0, run.err
    assert 0 < largest <= free.f_bavail * free.f_frsize / 10
