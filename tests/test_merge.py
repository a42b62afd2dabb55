"""`ms-profiler merge` writes a timeline with a process for each rank, one clock, and flows that join exchanges."""

import json
import os
import shutil
from pathlib import Path

import pytest
from conftest import PROGRAMS
from launches import TOOLS, free_port, launched
from ms_profiler.cli import main
from ms_profiler.store.format import Category
from ms_profiler.store.names import PEER, PEER_IN_GROUP
from perfetto_reader import read
from store_builder import MS, StoreBuilder

RANKS = 3
STEPS = 6
#: seconds by which the clock of each machine is ahead of the clock of the machine before it
AHEAD_S = 5
#: the ways of `messages_torch.py` to send, and the number of its steps
WAYS = ("blocking", "queued", "batched", "tagged", "any", "group")
RING_STEPS = 6

data = os.environ.get("MS_PROFILER_TEST_DATA")


def made(parent):
    """Write ranks on three machines whose clocks differ by seconds; rank 1 comes last to each exchange."""
    paths = []
    for rank in range(RANKS):
        ahead = rank * AHEAD_S * 1000 * MS
        name = f"host_{rank + 1}_2026010100000012{rank}_ascend_ms"
        store = StoreBuilder(
            parent, name, rank=rank, world_size=RANKS, pid=rank + 1, host=f"m{rank}", boot_id=str(rank)
        )
        process = store.process(rank + 1)
        thread = process.thread()
        thread.instant("group world ranks 0-2", Category.COMMUNICATION, ahead + 40 * MS, RANKS)
        for number in range(STEPS):
            start = ahead + (50 + 20 * number) * MS
            ready = start + (18 if rank == 1 else 4 + rank) * MS
            thread.span("forward", Category.FORWARD, start, ready)
            thread.span("AllReduce@world", Category.COMMUNICATION, ready, start + 19 * MS, arg=4_000_000)
            thread.step(number, start, start + 20 * MS)
        process.anchor(ahead + (51 + 20 * STEPS) * MS)
        paths.append(store.write())
    return paths


def merged(capsys, *words):
    """Run `ms-profiler merge`; return the timeline that it wrote and the lines that it printed."""
    assert main(["merge", *map(str, words)]) == 0
    lines = capsys.readouterr().out.splitlines()
    return read(Path(lines[-1])), lines


def processes(trace):
    """Return {process id: name} of the processes in a timeline."""
    return {each.process.pid: each.process.process_name for each in trace.tracks.values() if each.HasField("process")}


def rank_of(trace, uuid):
    """Return the name of the process to which a track belongs."""
    track = trace.tracks[uuid]
    while not track.HasField("process"):
        if track.HasField("thread"):
            return processes(trace)[track.thread.pid]
        track = trace.tracks[track.parent_uuid]
    return track.process.process_name


def flows(trace):
    """Return for each flow between exchanges its slices, sorted by start."""
    found = {}
    for each in trace.slices:
        for flow in (*each.flows, *each.ends):
            if each.category == "exchange":
                found.setdefault(flow, []).append(each)
    return [sorted(ends, key=lambda each: each.start) for ends in found.values()]


def test_exchanges_are_joined_on_one_clock(tmp_path, capsys):
    made(tmp_path / "data")
    trace, lines = merged(capsys, tmp_path / "data", "--steps", "2-4")
    assert lines[-1] == str(tmp_path / "data" / "trace.pftrace")
    assert lines[0].startswith("3 ranks, 9 exchanges, 3 of them joined by flows; largest error of the clocks: ")
    assert sorted(processes(trace).values()) == ["Rank 0", "Rank 1", "Rank 2"]
    assert len([each for each in trace.slices if each.category == "step"]) == 9
    joined = flows(trace)
    assert len(joined) == 3
    for place, ends in enumerate(sorted(joined, key=lambda ends: ends[0].start)):
        # rank 1, for which the others wait, comes last, and the flow ends there
        assert [rank_of(trace, each.track) for each in ends] == ["Rank 0", "Rank 2", "Rank 1"]
        assert [len(each.ends) for each in ends] == [0, 0, 1]
        assert {each.args["step"] for each in ends} == {2 + place} == {each.args["number"] for each in ends}
        assert {each.args["bytes"] for each in ends} == {4_000_000}
        # the ranks start 0, 1 and 14 ms after the first one, by the true clock, and end at the same time
        starts = [each.start - ends[0].start for each in ends]
        assert starts == pytest.approx([0, 2 * MS, 14 * MS], abs=MS)
        assert max(each.end for each in ends) - min(each.end for each in ends) < MS
    # other flows connect slices of one rank only
    within = {}
    for each in (each for each in trace.slices if each.category != "exchange"):
        for flow in (*each.flows, *each.ends):
            within.setdefault(flow, set()).add(rank_of(trace, each.track))
    assert all(len(names) == 1 for names in within.values())


@pytest.mark.slow
def test_ranks_are_chosen_and_a_damaged_one_is_reported(tmp_path, capsys):
    paths = made(tmp_path / "data")
    trace, _ = merged(capsys, tmp_path / "data", "--ranks", "1-2", "--output", tmp_path / "two" / "both.pftrace")
    assert sorted(processes(trace).values()) == ["Rank 1", "Rank 2"] and len(flows(trace)) == STEPS
    shutil.rmtree(paths[1] / "FRAMEWORK")
    (paths[1] / "FRAMEWORK").mkdir()
    trace, lines = merged(capsys, tmp_path / "data")
    assert sorted(processes(trace).values()) == ["Rank 0", "Rank 2"]
    assert any(paths[1].name in line for line in lines)
    for words, message in (
        (("--ranks", "7"), "There are results of the ranks 0, 2."),
        (("--ranks", "a"), "--ranks a is no list of numbers."),
        (("--steps", "1,3"), "--steps 1,3 is not consecutive."),
        (("--steps", "70"), "has no step 70"),
    ):
        assert main(["merge", str(tmp_path / "data"), *words]) == 2
        assert message in capsys.readouterr().err


def test_messages_join_their_sender_and_receiver(tmp_path, capsys):
    """Each of three ranks sends two messages to each other rank, in another order.

    One rank names its peers by group ranks.
    """
    for rank in range(RANKS):
        name = f"host_{rank + 1}_2026010100000012{rank}_ascend_ms"
        store = StoreBuilder(tmp_path / "data", name, rank=rank, world_size=RANKS, pid=rank + 1)
        process = store.process(rank + 1)
        thread = process.thread()
        thread.instant("group three ranks 2,1,0", Category.COMMUNICATION, 40 * MS, RANKS)
        others = [other for other in range(RANKS) if other != rank]
        calls = [("Send", other, 10 * rank + other) for other in others for _ in range(2)]
        calls += [("Receive", other, 10 * other + rank) for other in reversed(others) for _ in range(2)]
        calls += [("wait for Receive", None, 0), ("Receive", None, 7)]  # its sender may be any rank
        for place, (operation, other, size) in enumerate(calls):
            start = (60 + 2 * place) * MS
            thread.span(f"{operation}@three", Category.COMMUNICATION, start, start + MS, arg=size)
            if other is not None:
                label, number = (PEER_IN_GROUP, 2 - other) if rank == 1 else (PEER, other)
                thread.instant(label, Category.COMMUNICATION, start, number * 2**32 + 5)
        thread.step(0, 50 * MS, 90 * MS)
        process.anchor(100 * MS)
        store.write()
    trace, lines = merged(capsys, tmp_path / "data")
    joined = flows(trace)
    assert len(joined) == RANKS * 2 * 2, lines
    for ends in joined:
        (size,) = {each.args["bytes"] for each in ends}
        sides = {each.name: rank_of(trace, each.track) for each in ends}
        assert sides == {"send": f"Rank {size // 10}", "receive": f"Rank {size % 10}"}
    # the recorder's notes about messages do not appear as markers
    assert not [each for each in trace.slices if each.name in (PEER, PEER_IN_GROUP)]


@pytest.mark.slow
def test_messages_of_a_real_ring(tmp_path, capsys):
    """The size of a message identifies its sender and its receiver, see `messages_torch.py`."""
    options = {"start": True, "output_path": str(tmp_path / "data")}
    command = [TOOLS / "torchrun", "--nproc_per_node=4", f"--master_port={free_port()}"]
    launched([[*command, PROGRAMS / "messages_torch.py"]], tmp_path, options)
    trace, _ = merged(capsys, tmp_path / "data")
    ring = [(way, rank, (rank + 1) % 4) for way in WAYS[:4] for rank in range(4)]
    sizes = {
        4 * (1 + step + 100 * WAYS.index(way) + 1000 * sender + 10_000 * receiver): (sender, receiver)
        for way, sender, receiver in [*ring, ("any", 2, 0), ("group", 1, 3)]
        for step in range(RING_STEPS)
    }
    # of two messages with tags, the second one has 50 more values
    sizes |= {size + 200: ends for size, ends in sizes.items() if size // 400 % 10 == WAYS.index("tagged")}
    messages = [ends for ends in flows(trace) if ends[0].name in ("send", "receive")]
    found = {}
    for ends in messages:
        (size,) = {each.args["bytes"] for each in ends}
        sides = {each.name: rank_of(trace, each.track) for each in ends}
        found[size] = int(sides["send"].split()[1]), int(sides["receive"].split()[1])
    assert found == sizes and len(messages) == len(sizes)
    assert len(flows(trace)) == len(messages) + 2 * RING_STEPS
    # the bytes of each link are those of its messages
    assert main(["cluster", str(tmp_path / "data")]) == 0
    path = tmp_path / "data" / "cluster_analysis_output" / "cluster_communication_matrix.json"
    links = {}
    for groups in json.loads(path.read_text()).values():
        for operations in groups.values():
            for name, moved in operations.items():
                for link, each in moved.items() if name.startswith("send-total") else ():
                    links[link] = links.get(link, 0) + round(each["Transit Size(MB)"] * 1e6)
    truth = {f"{rank}-{rank}": 0 for rank in range(4)}
    for size, (sender, receiver) in sizes.items():
        truth[f"{sender}-{receiver}"] = truth.get(f"{sender}-{receiver}", 0) + size
    assert links == truth


@pytest.mark.skipif(not data, reason="MS_PROFILER_TEST_DATA names no real results")
@pytest.mark.parametrize("level", ["level0", "level1", "level1_db"])
def test_real_ranks_of_two_devices(level, tmp_path, capsys):
    trace, lines = merged(capsys, Path(data) / level, "--output", tmp_path / "trace.pftrace")
    assert sorted(processes(trace).values()) == ["Rank 0", "Rank 1"]
    joined = flows(trace)
    assert len(joined) == 4, lines
    for ends in joined:
        assert sorted(rank_of(trace, each.track) for each in ends) == ["Rank 0", "Rank 1"]
        assert ends[1].start <= ends[0].end and {each.name for each in ends} == {"allreduce"}


@pytest.mark.slow
def test_real_job_of_torchrun(tmp_path, capsys):
    options = {"start": True, "output_path": str(tmp_path / "data")}
    command = [TOOLS / "torchrun", f"--nproc_per_node={RANKS}", f"--master_port={free_port()}"]
    launched([[*command, PROGRAMS / "late_ranks_torch.py", "sleep", "1", "12"]], tmp_path, options)
    trace, _ = merged(capsys, tmp_path / "data", "--steps", "4-9")
    assert sorted(processes(trace).values()) == ["Rank 0", "Rank 1", "Rank 2"]
    joined = flows(trace)
    assert len(joined) >= 6 and all(len(ends) == RANKS for ends in joined)
    last = [rank_of(trace, ends[-1].track) for ends in joined]
    assert last.count("Rank 1") >= 5, last
    # the process ids in the timeline are those of the job
    pids = [json.loads(path.read_text())["pid"] for path in (tmp_path / "data").glob("*/FRAMEWORK/run_info.json")]
    assert sorted(pids) == sorted(processes(trace))
