"""What becomes of a recording when its process forks, is killed, or runs out of disk."""

import os
import random
import select
import signal
import subprocess
import time

import pytest
from recorders import KINDS, poll, run_program, start_program
from store_check import OPEN, SPAN, read_store

pytestmark = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def folder(tmp_path):
    """Where the segments go."""
    path = tmp_path / "store"
    path.mkdir()
    return path


def test_fork_children_have_stores_of_their_own(kind, tmp_path):
    count = 5000 if kind.startswith("native") else 1000
    folders = [tmp_path / name for name in ("parent", "one", "two", "three")]
    for folder in folders:
        folder.mkdir()
    output = run_program("recorder_fork.py", kind, folders[0], count, *folders[1:])
    pids = [int(pid) for pid in output.split()]
    stores = [read_store(folder, pid) for folder, pid in zip(folders, pids, strict=True)]
    for store, label, rounds in zip(stores, ["parent", "child", "child", "child"], [3, 1, 1, 1], strict=True):
        assert [span.arg for span in store.spans(label)] == list(range(count)) * rounds
        assert {span.flags for span in store.spans()} == {0}
        assert {record.kind for record in store.records} == {SPAN}
    assert [span.arg for span in stores[0].spans("another thread of the parent")] == list(range(count))
    assert len(stores[0].records) == 8 * count + 1
    for child, folder in zip(stores[1:], folders[1:], strict=True):
        assert len(child.records) == 2 * count
        assert len(child.spans("known before the fork")) == count
        (grandchild,) = tmp_path.glob(f"{folder.name}-*")
        store = read_store(grandchild, int(grandchild.name.partition("-")[2]))
        assert len(store.records) == 2 * count
        assert len(store.spans("grandchild")) == count


@pytest.mark.parametrize("seed", range(5))
def test_a_kill_loses_nothing_that_had_ended(kind, folder, seed):
    """Four kills at random moments; five seeds make twenty."""
    if kind.endswith("written"):
        pytest.skip("what is not mapped may lose 200 ms")
    wait = random.Random(seed)
    for number in range(4):
        path = folder / str(number)
        path.mkdir()
        process = start_program("recorder_kill.py", kind, path, 3)
        reports = process.stdout.read(64)  # it runs
        time.sleep(wait.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        reports += process.stdout.read()
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        store = read_store(path, process.pid, killed=True)
        assert store.torn <= 4, "one for each thread and the control stream"
        ended = {(span.name, span.arg, span.category) for span in store.spans()}
        reported = [line.split() for line in reports.decode().splitlines()]
        for thread, number in reported:
            assert (f"thread {thread}", int(number), 1) in ended
            assert (f"string {thread} {int(number) // 50}", int(number), 2) in ended
        assert len(reported) > 10
        running = [record for record in store.records if record.kind == OPEN]
        assert len(running) <= 6


def test_what_is_not_mapped_is_copied_while_it_runs(kind, folder):
    if kind.endswith("written"):
        process = start_program("recorder_kill.py", kind, folder, 2)
        first = process.stdout.read(4096).decode().splitlines()[:-1]

        def copied():
            select.select([process.stdout], [], [], 0)
            os.read(process.stdout.fileno(), 1 << 20)  # let it go on
            try:
                store = read_store(folder, process.pid, killed=True)
            except AssertionError:  # read while it is written
                return False
            ended = {(span.name, span.arg) for span in store.spans()}
            return all((f"thread {line.split()[0]}", int(line.split()[1])) in ended for line in first)

        poll(copied)
        process.kill()
        process.wait()
        process.stdout.close()
        read_store(folder, process.pid, killed=True)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of half a megabyte, nearly full of one file."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def check_full(kind, folder, filler):
    pid, records, dropped = (int(word) for word in run_program("recorder_full.py", kind, folder, filler).split())
    store = read_store(folder, pid)
    assert (len(store.records), store.dropped) == (records, dropped)
    assert store.dropped > 1000
    assert store.dropped_limit == 0
    spans = store.spans("x")
    assert [span.arg for span in spans] == list(range(len(spans)))
    assert len(spans) > 1000
    return store


def test_a_full_disk_is_no_signal(kind, small_disk):
    """The store stops where the disk ends and goes on when there is room; the program never notices."""
    (small_disk / "store").mkdir()
    filler = small_disk / "filler"
    filler.write_bytes(bytes(256 << 10))
    store = check_full(kind, small_disk / "store", filler)
    assert len(store.named("after the disk was freed")) == 1


def test_a_limit_on_file_sizes_is_no_signal(kind, folder):
    store = check_full(kind, folder, "")
    assert max(store.capacities) * 32 < 100_000


def test_memory_does_not_grow_with_the_store(kind, folder):
    """Two million spans are 64 MB on disk; of these a recorder keeps a segment or two."""
    spans = 2_000_000 if kind.startswith("native") else 100_000
    pid, growth = (int(word) for word in run_program("recorder_memory.py", kind, folder, spans).split())
    assert growth < 24 << 20
    store = read_store(folder, pid)
    assert len(store.records) == spans + spans // 1000
