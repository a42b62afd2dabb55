"""Metrics of the host agree with psutil's figures in the job, and show how the machine slowed steps down."""

import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import PROGRAMS, eventually
from csv_rows import rows
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.report import remarks
from ms_profiler.job.samplers import control_groups, system
from ms_profiler.store import host_metrics as names
from ms_profiler.store.format import Kind
from recorders import make
from store_builder import MS, StoreBuilder, training
from store_check import SLOT

RAN = [f"{metric.name} (processors)" for metric in (names.USER, names.SYSTEM)]


@pytest.fixture(scope="module")
def truth(launch, tmp_path_factory):
    file = tmp_path_factory.mktemp("file") / "written"
    run = launch(PROGRAMS / "host_truth.py", file, options={"host_sys": ["cpu", "mem", "disk", "network"]})
    assert run.code == 0, run.err
    return run, json.loads(run.out), rows(run.result, "host_metrics")


def between(table, first, last, *columns):
    """Return the sum of mean value * seconds over the intervals between two moments in ns, for all given columns."""
    total = 0.0
    for row in table:
        start, end = float(row["Start(us)"]) * 1e3, float(row["End(us)"]) * 1e3
        inside = max(min(end, last) - max(start, first), 0.0) / 1e9
        total += inside * sum(float(row[column] or 0) for column in columns)
    return total


def test_metrics_of_the_process_agree_with_psutil(truth):
    _, (first, last), table = truth
    moments = first["time_ns"], last["time_ns"]
    assert between(table, *moments, *RAN) == pytest.approx(last["cpu"] - first["cpu"], abs=0.15)
    assert between(table, *moments, "process: written by system calls (B/s)") == pytest.approx(24 << 20, rel=0.05)


def test_context_switches_are_those_that_the_kernel_counts(truth):
    _, (first, last), table = truth
    # a busy machine switches unevenly, so an interval that lies partly between the moments may have all or none of its
    # switches there
    begin, end = first["time_ns"] / 1e3, last["time_ns"] / 1e3
    inside = [row for row in table if float(row["Start(us)"]) >= begin and float(row["End(us)"]) <= end]
    touching = [row for row in table if float(row["Start(us)"]) < end and float(row["End(us)"]) > begin]
    least, most = (sum(map(switched, part)) for part in (inside, touching))
    # either thread may lose its processor between its look at the clock and its look at the counts
    lost = 20
    assert 0 < least <= last["switches"] - first["switches"] + lost
    assert most >= last["switches"] - first["switches"] - lost


def switched(row):
    """Return the number of context switches of the process in a row."""
    seconds = (float(row["End(us)"]) - float(row["Start(us)"])) / 1e6
    return seconds * sum(float(row[f"process: {kind} context switches (1/s)"]) for kind in ("voluntary", "involuntary"))


def test_resident_memory_agrees_with_psutil(truth):
    _, looks, table = truth
    for look in looks:
        after = next(row for row in table if float(row["Start(us)"]) * 1e3 > look["time_ns"])
        assert float(after["process: resident memory (B)"]) == pytest.approx(look["resident"], abs=8 << 20)
    assert float(table[-1]["process: peak of resident memory (B)"]) >= looks[1]["resident"]


def test_the_summary_has_the_memory_of_the_process(truth):
    run, looks, table = truth
    found = json.loads((run.result / "summary.json").read_text())["host_memory"]
    (held,) = found["processes"]
    assert held["peak_mb"] * 2**20 == pytest.approx(looks[1]["resident"], abs=8 << 20)
    # the job allocated 96 MiB between the two moments
    before = next(row for row in table if float(row["Start(us)"]) * 1e3 > looks[0]["time_ns"])
    grown = held["peak_mb"] - float(before["process: resident memory (B)"]) / 2**20
    assert grown == pytest.approx(96, abs=8)
    assert 0 < held["proportional_mb"] <= held["peak_mb"]
    assert held["anonymous_mb"] < held["peak_mb"]
    assert held["minor_faults"] > 96 * 2**20 / (2 << 20)
    assert found["peak_step"] is not None


def test_the_limit_of_a_control_group_and_its_peak_are_reported(tmp_path):
    store = training(tmp_path)
    helper = store.processes[0].thread(2, "ms-profiler")
    for time, used in ((60, 600), (70, 950), (80, 700)):
        helper.metric(names.SAMPLE, time * MS, 1000)
        helper.metric(names.PEAK.name, time * MS, 1024 * used)
        helper.metric(names.GROUP_MEMORY.name, time * MS, used << 20)
        helper.metric(names.GROUP_LIMIT.name, time * MS, 1000 << 20)
    path = store.write()
    engine.analyse([path])
    summary = json.loads((path / "summary.json").read_text())
    assert summary["host_memory"]["group"] == {"limit_mb": 1000.0, "most_mb": 950.0}
    line = "the control group (container) used 950.0 of 1,000.0 MiB (95.0 %), including memory for files"
    assert remarks.memory(summary["host_memory"])[-1] == line


def test_threads_and_lanes_are_shown(truth):
    run, (first, last), _ = truth
    threads = rows(run.result, "host_threads")
    assert {"Thread Name", "thread: running (processors)"} <= set(threads[0])
    # a busy machine gives the threads less than a processor each, so the process's own time is the measure
    ran = between(threads, first["time_ns"], last["time_ns"], "thread: running (processors)")
    assert ran == pytest.approx(last["cpu"] - first["cpu"], rel=0.3)
    trace = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    lanes = {event["name"] for event in trace if event["ph"] == "C"}
    assert {"process: resident memory (B)", "process: running Python and libraries (processors)"} <= lanes


@pytest.mark.slow
def test_none_are_read_without_the_option(job):
    run = job("import torch", options={"host_rate": 0})
    assert run.code == 0, run.err
    assert not (run.result / "ASCEND_PROFILER_OUTPUT" / "host_metrics.csv").exists()


STEP = 400 * MS
STEPS = 12


def strained(parent, slow=(), queued=0.0, others=0.1, throttled=0.0, faults=0, extra=1.0, ranks=1):
    """Return the causes that the advice names for a run with steps of 400 ms, some of which are slow.

    Args:
        parent: the folder of the result.
        slow: numbers of the slow steps.
        queued: share of a slow step in which the stepping thread waited for a processor.
        others: number of processors that other processes used in a slow step.
        throttled: share of the periods of a slow step in which the control group was throttled.
        faults: major page faults a second in a slow step, each of which brings a page from the swap.
        extra: how many times longer a slow step takes.
        ranks: number of ranks of the job.
    """
    store = StoreBuilder(parent, world_size=ranks)
    process = store.process()
    thread, helper = process.thread(), process.thread(2, "ms-profiler")
    counts = dict.fromkeys((names.USER, names.BUSY[0], names.PERIODS, names.THROTTLED, names.MAJOR, names.SWAP_IN), 0.0)
    waits, time, ran, sample = names.PRESSURE["memory"][0], 0, 0.0, 0
    counts[waits] = 0.0
    thread.look(0, 0, 0)
    for number in range(STEPS):
        bad = number in slow
        end = time + round(STEP * (extra if bad else 1.0))
        thread.step(number, time, end)
        while sample < end:
            helper.metric(names.SAMPLE, sample, 200_000)
            for metric, value in counts.items():
                helper.metric(metric.name, sample, round(value))
            sample += 100 * MS
            own = 1 - (queued if bad else 0.0)
            counts[names.USER] += 1e5 * own
            counts[names.BUSY[0]] += 10 * (own + (others if bad else 0.1))
            counts[names.PERIODS] += 1
            counts[names.THROTTLED] += throttled if bad else 0
            counts[names.MAJOR] += faults / 10 if bad else 0
            counts[names.SWAP_IN] += faults / 10 if bad else 0
            counts[waits] += 2e4 if bad and faults else 0
        length = end - time
        ran += length * (1 - (queued if bad else 0.0))
        thread.look(end, time, round(ran), round(length * (queued if bad else 0.0) / 1000))
        time = end
    process.anchor(time + MS)
    process.info.ended_ns = 0
    path = store.write()
    engine.analyse([path])
    advice = json.loads((path / "summary.json").read_text())["advice"]
    return {item["cause"]: item for item in advice if item["cause"] in ("busy-machine", "throttled", "swapping")}


ALL = range(STEPS)
SOME = (7, 8)


def test_a_balanced_machine_is_no_cause(tmp_path):
    assert strained(tmp_path) == {}


def test_slow_steps_of_the_job_itself_are_not_the_machine(tmp_path):
    assert strained(tmp_path, SOME, extra=3.0, others=0.8) == {}


def test_busy_processors_do_not_matter_to_a_job_with_its_own(tmp_path):
    assert strained(tmp_path, ALL, others=0.9) == {}


def test_the_other_ranks_of_a_job_are_no_other_programs(tmp_path):
    assert strained(tmp_path, ALL, queued=0.4, others=0.8, ranks=2) == {}


def test_a_balanced_job_that_waits_for_a_processor_now_and_then_has_no_cause(tmp_path):
    assert strained(tmp_path, ALL, queued=0.12, others=0.8) == {}


@pytest.mark.parametrize(("steps", "extra"), [(ALL, 1.0), (SOME, 2.5)])
@pytest.mark.parametrize(
    ("cause", "figures", "evidence"),
    [
        ("busy-machine", {"queued": 0.6, "others": 1.5}, "other processes used 1."),
        ("throttled", {"queued": 0.6, "throttled": 1.0, "others": 1.5}, "stopped the job in 100.0 % of the periods"),
        ("swapping", {"faults": 4000}, "major page faults a second, and the machine swapped 15."),
    ],
)
def test_the_machine_is_named_as_the_cause_of_slow_steps(tmp_path, steps, extra, cause, figures, evidence):
    found = strained(tmp_path, steps, extra=extra, **figures)
    assert list(found) == [cause]
    text = found[cause]["evidence"]
    assert evidence in text
    assert ("in steps 7, 8, 2.5 times the median step," in text) is (steps is SOME)
    assert found[cause]["step"] == (7 if steps is SOME else None)


def write(path, **files):
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)


def test_the_tightest_limit_around_the_process_counts(tmp_path):
    """The tightest limit counts in both versions of control groups, and in a container that sees only its own group."""
    top = tmp_path / "sys/fs/cgroup"
    write(top, cpu__stat="usage_usec 1\n", memory__current="1")
    write(
        top / "job", cpu__stat="nr_throttled 2\n", cpu__max="50000 100000\n", memory__current="5", memory__max="max\n"
    )
    write(
        top / "job/inner", cpu__stat="nr_throttled 1\n", cpu__max="max 100000\n", memory__current="4", memory__max="9\n"
    )
    write(
        tmp_path / "proc/self", cgroup="0::/pod/job/inner\n", mountinfo=f"1 2 0:3 /pod {top} rw - cgroup2 cgroup2 rw\n"
    )
    root = f"{tmp_path}/"
    found = list(control_groups.groups("cpu", root))
    assert [group.folder for group in found] == [f"{top}/job/inner", f"{top}/job", str(top)]
    assert [control_groups.quota(group) for group in found] == [0, 500, 0]
    assert [control_groups.memory_limit(group) for group in control_groups.groups("memory", root)] == [9, 0, 0]


def test_rows_of_a_file_are_adjacent_and_have_known_names():
    found = system.rows(frozenset({"cpu", "mem", "disk", "network"}))
    paths = [row.path for row in found]
    assert len(set(paths)) == sum(before != after for before, after in zip(["", *paths], paths, strict=False))
    assert all(names.metric(row.name) for row in found)


def test_the_recorder_counts_the_processor_time_of_its_helper_thread(tmp_path):
    def by_the_system():
        found = 0
        for task in Path("/proc/self/task").iterdir():
            if (task / "comm").read_text() == "ms-profiler\n":
                found += int((task / "schedstat").read_text().split()[0])
        return found

    recorder = make("native")
    before, others = recorder.stats().helper_ns, by_the_system()
    recorder.open(str(tmp_path))
    try:
        assert not recorder.read_host(list(system.rows(frozenset({"cpu"}))), 100.0, 0.5)
        eventually(lambda: recorder.stats().helper_ns - before > 20 * MS)
        counted = recorder.stats().helper_ns - before
        truth = by_the_system() - others
        assert 0.5 * truth < counted <= truth
    finally:
        recorder.read_host([], 1.0, 0.5)
        recorder.close()


@pytest.mark.parametrize("share", [0.005, 0.001])
def test_the_reading_takes_at_most_a_share_of_one_processor(tmp_path, share):
    recorder = make("native")
    recorder.open(str(tmp_path))
    name = recorder.intern(names.SAMPLE)

    def samples():
        (path,) = tmp_path.glob("000001.seg")
        slots = SLOT.iter_unpack(path.read_bytes()[128:])
        return [(slot[0], slot[2]) for slot in slots if slot[4] == Kind.METRIC and slot[3] == name]

    try:
        assert not recorder.read_host([row for row in system.rows(frozenset({"cpu"})) if not row.seldom], 100.0, share)
        eventually(lambda: any(tmp_path.glob("000001.seg")) and len(samples()) >= 5)
    finally:
        recorder.read_host([], 1.0, share)  # or the helper thread reads on for the recorders of other tests
        recorder.close()
    taken = samples()
    for (time, took), (after, _) in itertools.pairwise(taken):
        assert after - time >= 0.999 * took / share


@pytest.mark.parametrize(
    ("budgets", "share"),
    [([0.05], 0.002), ([0.01], 0.002), ([0.002], 0.0005), ([0.002, 0.004], 0.001), ([0.0], 0.002)],
)
def test_the_reading_takes_at_most_a_quarter_of_the_budget(budgets, share):
    asked = []
    options = {"host_rate": 10.0, "host_sys": ["cpu"], "profile_memory": False}
    host = SimpleNamespace(
        forked=False,
        recordings=[SimpleNamespace(options=SimpleNamespace(**options, overhead_budget=each)) for each in budgets],
        recorder=SimpleNamespace(read_host=lambda *values: asked.append(values[1:]) or ""),
    )
    system.System(host).start()
    assert asked == [(10.0, share)]


@pytest.fixture
def swap(tmp_path):
    """Give the machine a swap file of 800 MB for one test."""
    path = tmp_path / "swap"
    with open(path, "wb") as stream:
        os.fchmod(stream.fileno(), 0o600)
        for _ in range(800):
            stream.write(bytes(1 << 20))
    for tool in ("mkswap", "swapon"):
        if not shutil.which(tool) or subprocess.run([tool, path], capture_output=True).returncode:
            pytest.skip(f"{tool} makes no swap file here: it needs root and Debian's package mount")
    yield
    subprocess.run(["swapoff", path], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["all", "some"])
def test_a_job_that_swaps_is_told_so(job, swap, when):
    """Steps touch 400 MB, of which the control group lets 350 MB stay in memory."""
    run = job(PROGRAMS / "strained.py", "swapping", when)
    if run.code:
        pytest.skip("control groups may not be changed here: it needs a writable control group of version 1")
    causes = [item["cause"] for item in run.summary["advice"]]
    (swapping,) = (item for item in run.summary["advice"] if item["cause"] == "swapping")
    assert "throttled" not in causes
    assert ("times the median step" in swapping["evidence"]) == (when == "some")


@pytest.mark.slow
@pytest.mark.parametrize("when", ["all", "some"])
@pytest.mark.parametrize(
    ("what", "cause"), [("balanced", None), ("neighbours", "busy-machine"), ("throttled", "throttled")]
)
def test_a_strained_machine_is_named(job, what, cause, when):
    """This test measures time, so no other program may run. Throttling needs a writable control group of version 1."""
    run = job(PROGRAMS / "strained.py", what, when)
    if what == "throttled" and run.code:
        pytest.skip("control groups may not be changed here")
    assert run.code == 0, run.err
    advice = json.loads((run.result / "summary.json").read_text())["advice"]
    found = [item["cause"] for item in advice if item["cause"] in ("busy-machine", "throttled", "swapping")]
    assert found == ([cause] if cause else [])
