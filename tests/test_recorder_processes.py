"""Recordings are right in processes that fork, are killed, or fill the disk."""

import errno
import os
import random
import signal
import time

import pytest
from fakes_built import build_one
from ms_profiler.job.recorder.contract import NO_MEMORY
from recorders import KINDS, make, poll, run_program, start_program
from store_check import OPEN, SPAN, read_store

pytest_plugins = ["recorder_fixtures"]

NATIVE = ("native", "native-written")
MAPPED = ("native", "python")
WRITTEN = ("native-written", "python-written")

all_kinds = pytest.mark.parametrize("kind", KINDS)


@all_kinds
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


@pytest.mark.parametrize("kind", MAPPED)
@pytest.mark.parametrize("seed", range(5))
def test_a_kill_loses_nothing_that_had_ended(kind, folder, seed):
    """Each seed kills four times at random moments, which makes twenty kills for each recorder."""
    wait = random.Random(seed)
    for number in range(4):
        path = folder / str(number)
        path.mkdir()
        process = start_program("recorder_kill.py", kind, path, 3)
        reports = process.stdout.read(64)  # by then the program records
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


@pytest.mark.parametrize("kind", WRITTEN)
def test_segments_without_mapping_are_copied_while_the_job_runs(kind, folder):
    process = start_program("recorder_kill.py", kind, folder, 2)
    first = process.stdout.read(4096).decode().splitlines()[:-1]

    def copied():
        os.read(process.stdout.fileno(), 1 << 20)  # empties the pipe, so that the program continues
        try:
            store = read_store(folder, process.pid, killed=True)
        except AssertionError:  # the recorder was writing just now
            return False
        ended = {(span.name, span.arg) for span in store.spans()}
        return all((f"thread {line.split()[0]}", int(line.split()[1])) in ended for line in first)

    poll(copied)
    process.kill()
    process.wait()
    process.stdout.close()
    read_store(folder, process.pid, killed=True)


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


@all_kinds
def test_a_full_disk_is_no_signal(kind, mounted):
    """Recording stops when the disk is full, and continues when there is room again. The program gets no signal."""
    disk = mounted("-t", "tmpfs", "-o", "size=512k", "tmpfs")
    (disk / "store").mkdir()
    filler = disk / "filler"
    filler.write_bytes(bytes(256 << 10))
    store = check_full(kind, disk / "store", filler)
    assert len(store.named("after the disk was freed")) == 1


@pytest.mark.parametrize("kind", NATIVE)
def test_names_get_the_room_of_a_segment_in_reserve(kind, mounted):
    """A record is worth little without its name."""
    disk = mounted("-t", "tmpfs", "-o", "size=1m", "tmpfs")
    (disk / "store").mkdir()
    pid, named, failure = map(int, run_program("recorder_reserve.py", kind, disk / "store", disk / "filler").split())
    assert (named, failure) == (2500, errno.ENOSPC)
    assert {f"name {number}" for number in range(named)} < set(read_store(disk / "store", pid).strings.values())


@pytest.mark.parametrize("kind", MAPPED)
def test_where_mappings_cannot_be_relied_on_it_writes(kind, mounted):
    """On network file systems, mappings are unreliable.

    The test uses a ramfs, which ms-profiler does not know, either.
    """
    disk = mounted("-t", "ramfs", "ramfs")
    recorder = make(kind)
    recorder.open(str(disk), first_slots=8)
    for number in range(1000):
        recorder.end(recorder.begin(recorder.intern("x"), 1, number))
    with open("/proc/self/maps") as maps:
        assert str(disk) not in maps.read()
    recorder.close()
    assert [span.arg for span in read_store(disk).spans("x")] == list(range(1000))


@all_kinds
def test_a_limit_on_file_sizes_is_no_signal(kind, folder):
    store = check_full(kind, folder, "")
    assert max(store.capacities) * 32 < 100_000


@all_kinds
def test_a_job_may_close_descriptors_it_does_not_know(kind, folder):
    """Daemons close unknown descriptors.

    The recorder must not touch files that the job then opens under the same numbers.
    """
    pid = int(run_program("recorder_close_all.py", kind, folder))
    assert len(read_store(folder, pid).spans("x")) == 20_000


@all_kinds
def test_memory_does_not_grow_with_the_store(kind, folder):
    """For two million spans (64 MB), the recorder holds only some segments, and at most 32 MiB to be copied."""
    spans = 2_000_000 if kind.startswith("native") else 100_000
    growth = int(run_program("recorder_memory.py", kind, folder, spans))
    assert growth < (48 if kind in WRITTEN else 24) << 20
    kinds = [path.read_bytes()[128 + 28 :: 32] for path in sorted(folder.iterdir())[1:]]
    assert sum(content.count(SPAN) for content in kinds) == spans + spans // 1000


@all_kinds
def test_many_threads_take_no_more_memory_than_they_may(kind, folder):
    threads, spans, memory = 40, 5000, 1_500_000
    printed = run_program("recorder_threads.py", kind, folder, threads, spans, memory).split()
    mapped, pid, records, dropped, limit, failure = map(int, printed)
    assert kind in WRITTEN or memory / 2 < mapped <= memory
    assert (records + dropped, limit, failure) == (threads * spans + 1, 0, NO_MEMORY)
    assert len(read_store(folder, pid).spans("step")) == 1, "a coarse record still has room"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("native")])
def test_no_span_has_the_time_that_a_thread_loses_while_the_recorder_reads_its_processor_time(
    kind, folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("LD_PRELOAD", str(build_one(tmp_path, "libslow_looks.so", ("slow_looks.c",))))
    store = read_store(folder, int(run_program("recorder_looks.py", kind, folder)))
    lengths = sorted(span.end - span.start for span in store.spans("short"))
    assert len(lengths) == 20 and len(store.looks) >= 20
    assert lengths[10] < 2_000_000, "each reading takes 5 ms"
