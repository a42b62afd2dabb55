"""`ms-profiler cluster` says how ranks ended, which rank ended first, and which rank did not begin an exchange."""

import json
import socket
from pathlib import Path

import jsonschema
import pytest
from ms_profiler.analysis import report
from ms_profiler.analysis.driver import engine
from ms_profiler.cli import main
from ms_profiler.store import layout
from ms_profiler.store.format import Category, Flag
from store_builder import MS, RAW_NS, StoreBuilder

SCHEMA = json.loads((Path(report.__file__).parent / "summary.schema.json").read_text())
STEPS = 8
#: the end of the last step
OVER = (50 + 20 * STEPS) * MS
SECOND = 1000 * MS
FAILED = "exception: RuntimeError"


@pytest.fixture
def job(tmp_path, capsys):
    """Return a function that writes the results of ranks, and returns the remarks about how the ranks ended.

    Each rank has steps with an exchange. Its arguments are a function for each rank: this function records what the
    rank does after the last step, and returns the end and its time; the time is None if the process was killed.
    """

    def made(*ends, coarse=(), world=None):
        paths = []
        for rank, end in enumerate(ends):
            name = f"host_{rank + 1}_2026010100000012{rank}_ascend_ms"
            world_size = world or len(ends)
            facts = {"rank": rank, "world_size": world_size, "pid": rank + 1, "job": "job"}
            store = StoreBuilder(tmp_path, name, host=socket.gethostname(), **facts)
            process = store.process(rank + 1)
            thread = process.thread()
            members = "-".join(map(str, (0, world_size - 1)))
            thread.instant(f"group world ranks {members}", Category.COMMUNICATION, 40 * MS, world_size)
            for number in range(STEPS):
                start = (50 + 20 * number) * MS
                thread.span("forward", Category.FORWARD, start, start + 5 * MS)
                thread.span("AllReduce@world", Category.COMMUNICATION, start + 5 * MS, start + 19 * MS)
                flags = Flag.COARSE if rank in coarse else 0
                thread.step(number, start, start + 20 * MS, flags=flags)
            how, time = end(thread)
            process.anchor(time)
            process.info.state, process.info.end = ("running", "") if how is None else ("ended", how)
            process.info.ended_ns = 0 if how is None else RAW_NS + time
            paths.append(store.write())
        engine.analyse(paths)
        capsys.readouterr()
        assert main(["cluster", str(tmp_path), "--json", "--no-files"]) == 0
        return json.loads(capsys.readouterr().out)["remarks"]

    return made


def waits(thread):
    """Wait in the backward pass for another rank, until a timeout ends the exchange and the job."""
    thread.span("backward", Category.BACKWARD, OVER + 30 * MS, OVER + 15_040 * MS, flags=Flag.RAISED)
    thread.span("AllReduce@world", Category.COMMUNICATION, OVER + 35 * MS, OVER + 15_035 * MS, flags=Flag.RAISED)
    return FAILED, OVER + 15_100 * MS


def hangs(thread):
    return None, OVER + 20 * SECOND


HOW = [
    "Rank 0 ended with exception: RuntimeError, 15.10 s after step 7.",
    "In rank 0, backward ended with an exception after 15.01 s; allreduce 8 of ranks 0, 1 took 15.00 s of it.",
]


def test_the_rank_is_named_that_did_not_begin_the_exchange_of_another(job):
    assert job(waits, hangs) == [
        "Rank 0 ended first, 4.90 s before the last record of rank 1.",
        *HOW,
        "Rank 1 recorded no begin of allreduce 8.",
        "Rank 1 ended with killed or vanished; its last record is 20.00 s after step 7.",
        "After step 7, rank 1 recorded no forward pass, backward pass or other phase.",
    ]


def test_the_rank_that_ended_first_comes_first(job):
    assert job(waits, lambda thread: (FAILED, OVER + 20 * MS)) == [
        "Rank 1 ended first, 15.08 s before the end of rank 0.",
        "Rank 1 ended with exception: RuntimeError, 20.0 ms after step 7.",
        *HOW,
        "Rank 1 did not begin allreduce 8.",
    ]
    assert job(waits, lambda thread: ("exit", OVER + 20 * MS)) == [
        "Rank 1 ended first (exit), 15.08 s before the end of rank 0.",
        *HOW,
        "Rank 1 did not begin allreduce 8.",
    ]


def begins(thread):
    """Begin the exchange without waiting for it, and stand still in the script."""
    thread.span("AllReduce@world", Category.COMMUNICATION, OVER + 1 * MS, OVER + 2 * MS)
    return hangs(thread)


def computes(thread):
    """Be killed in the backward pass, in which the exchange may have begun."""
    thread.open("backward", Category.BACKWARD, OVER + 30 * MS)
    return hangs(thread)


@pytest.mark.parametrize("other", [begins, computes])
def test_no_rank_is_named_that_may_have_begun_the_exchange(job, other):
    remarks = job(waits, other)
    assert HOW[1] in remarks and not any(" begin " in text for text in remarks)
    open_ended = "In rank 1, backward had not ended after 19.97 s."
    assert (open_ended in remarks) == (other is computes)


def test_ranks_with_steps_that_were_not_recorded_are_not_compared(job):
    remarks = job(waits, hangs, coarse=(1,))
    assert HOW[1] in remarks and not any(" begin " in text or "recorded no" in text for text in remarks)
    remarks = job(waits, hangs, coarse=(0,))
    assert HOW[1].replace("allreduce 8", "allreduce") in remarks and not any(" begin " in text for text in remarks)


def test_no_rank_ended_first_if_a_result_is_missing_or_the_end_of_a_killed_process_is_unknown(job):
    assert not any("first" in text for text in job(waits, hangs, world=3))
    assert not any("first" in text for text in job(waits, lambda thread: (None, OVER + SECOND)))


def test_the_summary_of_a_rank_names_the_long_phase_after_its_last_step(job, tmp_path, capsys):
    job(waits, hangs)
    first, second = sorted(map(str, tmp_path.iterdir()))
    found = [json.loads((tmp_path / path / layout.SUMMARY).read_text()) for path in (first, second)]
    for summary in found:
        jsonschema.Draft202012Validator(SCHEMA).validate(summary)
    assert (found[0]["ending"]["after_step"], found[0]["ending"]["exchange_ms"]) == (STEPS - 1, 15_000.0)
    assert found[1]["ending"] is None
    line = "After step 7, backward ended with an exception after 15.01 s; allreduce took 15.00 s of it"
    for words in ((), ("--all",)):
        assert main(["summary", first, *words]) == 0
        assert line in capsys.readouterr().out
    assert main(["summary", second]) == 0
    assert "After step" not in capsys.readouterr().out
    assert main(["summary", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Rank 1 recorded no begin of allreduce 8." in out and line in out
