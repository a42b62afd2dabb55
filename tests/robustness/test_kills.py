"""Two hundred random SIGKILLs lose no committed record.

A job reports each record on a pipe after the recorder has returned. The test kills the job at a random moment after its
first report. It kills every fourth job at a random moment after the job's start. Every reported record has to be
readable; other records may be in the store or not. The seed is part of the names of the tests: `MS_PROFILER_SEED=7 make
test-robustness`.
"""

import json
import os
import random
import subprocess
import sys
import threading

import pytest
from conftest import PROGRAMS, environment
from ms_profiler.analysis.driver import engine
from ms_profiler.errors import StoreError
from ms_profiler.store import layout
from ms_profiler.store.reader import ReadCounts, read_process
from recorders import TESTS
from store_check import read_store
from unharmed import training

SEED = int(os.environ.get("MS_PROFILER_SEED", "20"))
#: kind of job -> number of jobs, the most seconds from the first report to the kill, seconds that the start takes
ROUNDS = {"native": (80, 0.4, 0.3), "python": (40, 0.4, 0.3), "session": (40, 0.5, 0.5), "torch": (40, 1.0, 3.0)}
#: number of jobs in one test
PART = 20
PARTS = [(kind, part) for kind, (rounds, *_) in ROUNDS.items() for part in range(rounds // PART)]

STEPS = """
for number in range(10 ** 6):
    step()
    os.write(1, b"%d\\n" % number)
"""


def test_there_are_two_hundred():
    assert len(PARTS) * PART == 200


def killed(command, variables, early, seconds):
    """Run a job, kill it, and return its process id and the complete lines that it had written.

    Args:
        command: the command of the job.
        variables: the environment of the job.
        early: whether `seconds` count from the start of the job; without it, they count from its first line.
        seconds: seconds until the kill.
    """
    process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    text = b"" if early else process.stdout.readline()
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    lines = (text + process.stdout.read()).split(b"\n")[:-1]
    assert process.wait() == -9
    process.stdout.close()
    timer.cancel()
    return process.pid, lines


def recorded(kind, folder, *moment):
    """Kill a recorder, check that its store has each record that it had reported, and return their number."""
    command = [sys.executable, str(PROGRAMS / "recorder_kill.py"), kind, str(folder), "3"]
    pid, lines = killed(command, environment(PYTHONPATH=str(TESTS)), *moment)
    if not lines:
        if any(folder.iterdir()):
            read_process(str(folder), ReadCounts())  # the reader may find nothing, but it must not fail
        return 0
    store = read_store(folder, pid, killed=True)
    ended = {(span.name, span.arg) for span in store.spans()}
    reported = [tuple(map(int, line.split())) for line in lines]
    assert not [item for item in reported if (f"thread {item[0]}", item[1]) not in ended]
    assert not [item for item in reported if (f"string {item[0]} {item[1] // 50}", item[1]) not in ended]
    return len(reported)


def trained(kind, folder, *moment):
    """Kill a job, check that the analysis has each span or step that it had reported, and return their number."""
    options = {"start": True, "output_path": str(folder), "overhead_budget": 0}
    program = [str(PROGRAMS / "report_spans.py"), "session"] if kind == "session" else ["-c", training(STEPS, steps=1)]
    _, lines = killed([sys.executable, *program], environment(options), *moment)
    numbers = [int(line) for line in lines if line.isdigit()]
    results = list(folder.glob("*_ascend_ms"))
    if not numbers:
        for result in results:
            try:
                engine.analyse([result])
            except StoreError as error:
                assert str(error)
        return 0
    (result,) = results
    (found,) = engine.analyse([result])
    assert not found.warning and not found.error, found
    if kind == "torch":
        assert json.loads((result / layout.SUMMARY).read_text())["steps"]["count"] >= len(numbers)
        return len(numbers)
    events = json.loads((result / layout.OUTPUT / layout.TRACE_VIEW).read_text())
    seen = {event["name"] for event in events if event["ph"] == "X"}
    # a process can hold 65,536 names
    assert not [number for number in numbers if number < 60_000 and f"span {number}" not in seen]
    return len(numbers)


@pytest.mark.parametrize(("kind", "part"), PARTS, ids=[f"{kind}-{part}-seed-{SEED}" for kind, part in PARTS])
def test_committed_records_are_read(tmp_path, kind, part):
    wait, (_, most, start) = random.Random(f"{SEED} {kind} {part}"), ROUNDS[kind]
    reported = []
    for number in range(PART):
        folder = tmp_path / str(number)
        folder.mkdir()
        early = number % 4 == 0
        moment = early, wait.uniform(0, start if early else most)
        reported.append((recorded if kind in ("native", "python") else trained)(kind, folder, *moment))
    assert sum(count > 0 for count in reported) >= PART * 3 // 4, reported
