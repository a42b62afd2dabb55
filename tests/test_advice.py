"""The advice names the main cause first, with its numbers, and names no cause without evidence."""

import re
from dataclasses import replace
from inspect import signature

import polars as pl
import pytest
from microseconds import phases
from ms_profiler.analysis.metrics import batch_makers, overheads, repeated_compiling
from ms_profiler.analysis.metrics.advice import Facts, ranked, work
from ms_profiler.analysis.metrics.advice.base import BatchTexts
from ms_profiler.analysis.metrics.anomaly_checks import Checks
from ms_profiler.analysis.metrics.bounds import PARTS
from ms_profiler.analysis.metrics.diagnosis import Diagnosis
from ms_profiler.analysis.metrics.growth import Growth
from ms_profiler.analysis.metrics.launch_counts import Launched
from ms_profiler.analysis.metrics.links import Slow
from ms_profiler.analysis.metrics.overheads import Casts, Delayed, Late, Optimizing
from ms_profiler.analysis.metrics.packets import Packets
from ms_profiler.analysis.metrics.pauses import Pauses
from ms_profiler.analysis.metrics.reads import READ
from ms_profiler.analysis.metrics.scheduling import Crowd
from ms_profiler.analysis.metrics.stack_parts import Code
from ms_profiler.analysis.metrics.strain import BUSY, Strain

MS = 1_000_000
STEPS = 10
MANY = Launched("operators", 3000, 1500)
READS = pl.Schema({"name": pl.String, "module": pl.String, "step": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64})
TYPES = pl.Schema({"name": pl.String, "core": pl.String, "count": pl.UInt64, "ratio": pl.Float64})


def parts(**shares):
    """Return steps of 10 ms in which each part has the given share; the rest is computing."""
    whole = {"computing": 1 - sum(shares.values()), **shares}
    rows = [(step, part, round(whole[part] * 10 * MS)) for step in range(STEPS) for part in PARTS if part in whole]
    schema = {"step": pl.UInt32, "part": pl.String, "duration_ns": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def reads(per_step, module="Net.head", name="Tensor.asnumpy"):
    rows = [(name, module, step, 0, 1) for step in range(STEPS) for _ in range(per_step)]
    return pl.DataFrame(rows, schema=READS, orient="row")


#: text about the module in which launching takes most time
LAUNCHING = "launching in Net.3 takes 40 % of the step, in each similar module beside it at most 5 %"


def advice_on(types=(), statistics=None, threads=2, code=(), makers=None, **known):
    """Return the advice on a run of ten steps, numbered from 100, about which these facts are known."""
    pieces = pl.DataFrame(
        schema={"step": pl.UInt32, "part": pl.String, "phase": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
    )
    found = {
        "pieces": pieces,
        "parts": parts(),
        "moments": pieces,
        "crowd": Crowd(0.0, 0.0, 0.0),
        "delayed": Delayed({}, 0.0),
        "reading": 0.0,
        "optimizing": Optimizing(0.1, 0.0, None),
        "casts": None,
        "late": None,
        "seen": True,
        "accelerator": False,
        "path": pl.DataFrame(),
        "launched": None,
        "reads": reads(0),
        "recompiles": pl.DataFrame(schema={"step": pl.UInt32, "text": pl.String}),
        "again": None,
        "growth": None,
        "pauses": None,
        "packets": None,
        "links": [],
        "waits": pl.DataFrame(schema={"operation": pl.String, "count": pl.UInt32, "total_ns": pl.Int64}),
    }
    facts = Facts(
        numbers=list(range(100, 100 + STEPS)),
        lane="MainThread",
        framework="torch",
        statistics=statistics or {"count": 100, "median_ms": 10.0, "p95_ms": 11.0},
        recorded_ns=STEPS * 10 * MS,
        types=pl.DataFrame(types, schema=TYPES, orient="row"),
        threads=threads,
        processors=4,
        code=Code(*code),
        module=LAUNCHING if "launched" in known and known["launched"].in_steps else "",
        makers=makers or BatchTexts(),
    )
    return ranked(Diagnosis(**found | known), facts)


def again(compile_ns, *steps):
    """Return the compilations after the first one; `steps` are those with a known reason."""
    text = "recompile Net: tensor 'x' size mismatch"
    schema = {"step": pl.UInt32, "text": pl.String}
    known = pl.DataFrame([(step, text) for step in steps], schema=schema, orient="row")
    return repeated_compiling.again(known, compile_ns, pl.Series([10 * MS] * STEPS))


WAITS = pl.DataFrame({"operation": ["wait for Samples"], "count": [10], "total_ns": [60 * MS]})
SMALL = Packets(100, 90, 0.6, 0.01, 4096, 9000, 1e10)
LINK = Slow("AllReduce", "slow", 1e8, 1e9, "fast", 40 * MS, 3)


@pytest.mark.parametrize(
    ("known", "cause", "evidence"),
    [
        ({"parts": parts(data=0.5), "waits": WAITS}, "input-bound", "wait for Samples: 10 times, 6.0 ms on average"),
        ({"parts": parts(checkpoint=0.1)}, "checkpointing", "10.0 %"),
        # computing has the larger share, but that share includes waits for a processor; the share of checkpoints does
        # not
        ({"parts": parts(checkpoint=0.04), "crowd": Crowd(0.85, 0.9, 0.9)}, "checkpointing", "4.0 %"),
        ({"parts": parts(communication=0.2)}, "communication-bound", "20.0 %"),
        (
            {"parts": parts(sync=0.4), "reads": reads(30)},
            "sync-bound",
            "30.0 synchronisation points a step, mostly Ten",
        ),
        ({"parts": parts(sync=0.4), "reads": reads(3)}, "sync-bound", "in Net.head"),
        (
            {"parts": parts(launch=0.8), "launched": MANY},
            "launch-bound",
            "3,000 operators a step, half of them shorter",
        ),
        ({"parts": parts(launch=0.4, host=0.4), "launched": MANY}, "launch-bound", "launching them takes 40.0 %"),
        # launching takes no longer than computing, but most of it fetches values
        (
            {"parts": parts(launch=0.5), "launched": MANY, "reading": 0.3, "reads": reads(200, name=READ)},
            "sync-bound",
            "200 operators a step fetch a value (aten::item), with almost no operator between; launching them takes 15",
        ),
        # on a device, fewer kernels are many if launching takes most of a step
        (
            {"parts": parts(launch=0.7), "launched": Launched("kernels", 68, 1900, in_steps=0.9)},
            "launch-bound",
            f"68 kernels a step, half of them shorter than 1.9 us; launching them takes 70.0 % of the steady steps, "
            f"computing takes 30.0 %; {LAUNCHING}",
        ),
        ({"parts": parts(host=0.7), "launched": Launched("kernels", 20, 9)}, "host-bound", "70.0 %"),
        # computing takes more time, but only the script's own work could be moved elsewhere
        ({"parts": parts(host=0.3), "launched": Launched("operators", 20, 9)}, "host-bound", "30.0 %"),
        ({"parts": parts(data=0.41), "delayed": Delayed({"data": 0.5}, 0.0)}, "input-bound", "41.0 %"),
        (
            {"parts": parts(communication=0.6), "delayed": Delayed({"communication": 0.5}, 0.0)},
            "communication-bound",
            "60.0 %",
        ),
        (
            {"optimizing": Optimizing(0.8, 0.5, 300, "learning rate", longest=0.7)},
            "optimizer-bound",
            "; the scheduler of learning rates takes 70.0 % of the steady steps",
        ),
        ({"growth": Growth(1 << 20, 80 << 20, 200 << 20, 3, 9)}, "memory-growth", "1.0 MiB more after each step"),
        (
            {"pauses": Pauses(4, 20 * MS, 9 * MS, 0.2, 4), "parts": parts(**{"garbage collection": 0.2})},
            "gc-pauses",
            "4 long collections by Python take 20.0 %",
        ),
        ({"parts": parts(blocked=0.5)}, "host-waits", "in 50.0 % of the steady steps MainThread is asleep or blocked"),
        (
            {"crowd": Crowd(0.4, 0.4, 0.4), "threads": 8},
            "oversubscribed",
            "waits for one in 40.0 % of the steady steps, also while it",
        ),
        (
            {"reading": 0.9, "reads": reads(200, name=READ), "parts": parts(launch=0.8), "launched": MANY},
            "sync-bound",
            "200.0 of them a step fetch a value",
        ),
        (
            {
                "checks": Checks(150, 0.12),
                "reading": 0.9,
                "reads": reads(200, name=READ),
                "parts": parts(launch=0.35, computing=0.65),
                "launched": MANY,
            },
            "anomaly-detection",
            "autograd looks for NaN in 150 gradients a step, which takes 12.0 % of the steady steps",
        ),
        (
            {"optimizing": Optimizing(0.82, 0.1, 30)},
            "optimizer-bound",
            "takes 82.0 % of the steady steps, 30 operators",
        ),
        (
            {"optimizing": Optimizing(0.7, 0.6, 900)},
            "unfused-optimizer",
            "900 operators a step; launching them takes 60.0 % of the steady steps",
        ),
        ({"casts": Casts("aten::_to_copy", 40, 0.3)}, "casting", "(aten::_to_copy, 40.0 a step) takes 30.0 %"),
        (
            {"parts": parts(communication=0.6), "late": Late(0.9, 20, 30 * MS, 4096)},
            "late-rank",
            "an exchange of 4.0 KiB takes 30.0 ms on average",
        ),
        ({"types": [("Cast", "AI_CPU", 7, 0.3), ("MatMul", "AI_CORE", 9, 0.7)]}, "aicpu-fallback", "7 kernels (Cast)"),
        ({"links": [LINK]}, "slow-link", "AllReduce in slow reaches 95.4 MiB/s, in fast 953.7 MiB/s"),
        (
            {"again": again({0: 9 * MS, 3: 9 * MS, 5: 30 * MS}, 3, 5)},
            "recompiling",
            "2 of 10 steps compiled again, which took 42.9 % of their time (the first compilation left out); "
            "2 times: recompile Net: tensor 'x'",
        ),
        ({"again": again({0: MS, 3: MS, 5: 30 * MS})}, "recompiling", "2 of 10 steps"),
    ],
)
def test_a_cause_has_its_numbers_and_an_action(known, cause, evidence):
    (found,) = advice_on(**known)
    assert found.cause == cause and evidence in found.evidence and found.action
    # the job's last line quotes the evidence, so it must name what takes the time
    assert not re.match(r"[\d.]+ %", found.evidence)


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"parts": parts(data=0.19, sync=0.19, communication=0.19, checkpoint=0.09), "reads": reads(3)},
        {"parts": parts(sync=0.5)},
        {"parts": parts(sync=0.9), "reads": reads(1), "accelerator": True},
        {"parts": parts(launch=0.8), "launched": Launched("operators", 90, 1500)},
        {"parts": parts(launch=0.6), "launched": MANY},
        {"parts": parts(launch=0.7), "launched": Launched("kernels", 68, 1900)},
        {"parts": parts(launch=0.7), "launched": Launched("kernels", 12, 1900, in_steps=0.9)},
        {"parts": parts(launch=0.42, compile=0.45), "launched": Launched("kernels", 68, 1900, in_steps=0.9)},
        # most kernels ran outside of the steps, for example those of CUDA graphs
        {"parts": parts(launch=0.7), "launched": Launched("kernels", 68, 1900, in_steps=0.1)},
        {"parts": parts(host=0.9)},
        {"again": again({0: MS, 3: 90 * MS}, 3)},
        {"again": again({0: 10 * MS, 3: MS, 5: MS}, 3, 5)},
        {"pauses": Pauses(2, 30 * MS, 25 * MS, 0.3, 4), "parts": parts(**{"garbage collection": 0.3})},
        {"parts": parts(blocked=0.19)},
        {"crowd": Crowd(0.9, 0.9, 0.9)},
        {"optimizing": Optimizing(0.39, 0.39, 900)},
        {"casts": Casts("aten::_to_copy", 40, 0.1)},
        {"reading": 0.19, "reads": reads(200, name=READ), "parts": parts(launch=0.5), "launched": MANY},
        {"types": [("Cast", "AI_CPU", 7, 0.009), ("MatMul", "AI_CORE", 9, 0.991)]},
        {"packets": SMALL},
        {"statistics": {"count": 100, "median_ms": 10.0, "p95_ms": 90.0}},
        {"parts": parts(host=0.24), "launched": MANY},
        # The loader's workers waited for a processor half of the time, or the other ranks waited as this rank did.
        {"parts": parts(data=0.39), "delayed": Delayed({"data": 0.5}, 0.0)},
        {"parts": parts(communication=0.39), "delayed": Delayed({"communication": 0.5}, 0.0)},
    ],
)
def test_no_advice_without_evidence(known):
    assert advice_on(**known) == []


@pytest.mark.parametrize(
    ("name", "options"),
    [("Adam", ["fused=True", "foreach=True"]), ("NAdam", ["foreach=True"]), ("LBFGS", []), ("Lion", []), ("", [])],
)
def test_the_action_names_only_options_that_the_optimizer_has(name, options):
    (item,) = advice_on(optimizing=Optimizing(0.7, 0.6, 900, name, closure=name == "LBFGS"))
    assert [word for word in ("fused=True", "foreach=True") if word in item.action] == options
    assert ("its closure, without forward and backward passes, takes 70.0 %" in item.evidence) == (name == "LBFGS")


def test_an_optimizer_has_the_options_that_the_advice_names():
    torch = pytest.importorskip("torch")
    for name in (*work.FUSED, *work.FOREACH):
        options = signature(getattr(torch.optim, name)).parameters
        assert ("foreach" in options, "fused" in options) == (True, name in work.FUSED)


@pytest.mark.parametrize(("during", "more"), [(0.9, True), (0.3, False), (None, True)])
def test_more_workers_are_advised_only_if_making_batches_is_the_limit(during, more):
    told = batch_makers.words(batch_makers.Makers(2, 2, 80, 1.2 * MS, 0.06, during, "", 0.0))
    (item,) = advice_on(parts=parts(data=0.5), waits=WAITS, makers=BatchTexts(*told))
    assert ("more workers" in item.action) == more
    assert "2 workers made a batch in 1.2 ms, busy with it 6 % of the time" in item.evidence


def test_the_largest_part_comes_first_but_a_leak_that_grows_fast_before_all():
    known = {"parts": parts(data=0.3, sync=0.5), "reads": reads(9)}
    assert [item.cause for item in advice_on(**known)] == ["sync-bound", "input-bound"]
    slow = Growth(1 << 20, 5 << 20, 200 << 20, 3, 9)
    assert [item.cause for item in advice_on(**known, growth=slow)] == ["sync-bound", "input-bound", "memory-growth"]
    moderate = Growth(1 << 20, 40 << 20, 200 << 20, 3, 9)
    assert [item.cause for item in advice_on(**known, growth=moderate)][-1] == "memory-growth"
    busy = Strain(BUSY, 0.4, (), 1.0, 0.4, 0.25, 1.68, 0.0, 2.0, 0.0, None, 0.0, 0.0, 0.0)
    assert [item.cause for item in advice_on(growth=moderate, strains=[busy])] == ["memory-growth", "busy-machine"]
    fast = Growth(1 << 20, 80 << 20, 200 << 20, 3, 9)
    assert advice_on(**known, growth=fast)[0].cause == "memory-growth"


def spiked(table, part, step, length_ns):
    """Return the times of parts in which one part of one step takes another time."""
    there = (pl.col("step") == step) & (pl.col("part") == part)
    return table.with_columns(duration_ns=pl.when(there).then(length_ns).otherwise("duration_ns"))


def test_advice_names_the_step_and_the_lane_that_show_it():
    table = spiked(parts(data=0.3), "data", 7, 50 * MS)
    (found,) = advice_on(parts=table)
    assert (found.step, found.lane) == (107, "MainThread")


def test_on_a_busy_machine_single_steps_are_no_cause():
    table = spiked(parts(data=0.01), "data", 4, 90 * MS)
    assert [item.cause for item in advice_on(parts=table)] == ["input-bound"]
    assert advice_on(parts=table, crowd=Crowd(0.1, 0.2, 0.2)) == []
    assert advice_on(parts=parts(data=0.5), crowd=Crowd(0.1, 0.2, 0.2))[0].cause == "input-bound"


@pytest.mark.parametrize(("places", "causes"), [(range(3, 60, 10), ["input-bound"]), ((4, 9, 27, 31, 33, 58), [])])
def test_waits_at_regular_intervals_are_no_spikes_of_a_busy_machine(places, causes):
    table = pl.concat([parts(data=0.01).with_columns(pl.col("step") + 10 * tens) for tens in range(6)])
    for step in places:
        table = spiked(table, "data", step, 90 * MS)
    assert [item.cause for item in advice_on(parts=table, crowd=Crowd(0.1, 0.2, 0.2))] == causes


@pytest.mark.parametrize(
    ("waits", "sleep", "causes"),
    [(0.44, 0.31, ["host-waits", "busy-machine"]), (0.75, 0.12, ["busy-machine", "host-waits"])],
)
def test_advice_about_the_job_is_first_on_a_busy_machine_if_its_share_of_the_rest_is_larger(waits, sleep, causes):
    busy = Strain(BUSY, waits, (), 1.0, waits, 0.25, 1.68, 0.0, 2.0, 0.0, None, 0.0, 0.0, 0.0)
    advice = advice_on(parts=parts(blocked=sleep, runnable=0.4), strains=[busy])
    assert [item.cause for item in advice] == causes
    of_few = replace(busy, steps=(3,), share=0.5)
    assert advice_on(parts=parts(blocked=sleep, runnable=0.4), strains=[of_few])[0].cause == "busy-machine"


def test_a_sleep_in_some_steps_is_a_cause_on_a_busy_machine_and_its_callback_is_named():
    table = spiked(parts(blocked=0.01), "blocked", 4, 90 * MS)
    busy = Crowd(0.1, 0.2, 0.2)
    assert [item.cause for item in advice_on(parts=table, crowd=busy)] == ["host-waits"]
    (found,) = advice_on(parts=table, crowd=busy, modules={"blocked": "callback Log.step_end"})
    assert found.cause == "host-waits" and "most of it in the own code of callback Log.step_end" in found.evidence


@pytest.mark.parametrize(("phase", "place"), [("other", "outside of all phases"), ("backward", "in backward")])
def test_a_sleep_is_said_to_lie_in_a_phase_only_for_most_of_it(phase, place):
    """Half of a step is sleep; 60 % of it lies in one phase, and the rest in the forward pass."""
    rows = [(0, "blocked", phase, 0, 3 * MS), (0, "blocked", "forward", 3 * MS, 5 * MS)]
    schema = {"step": pl.UInt32, "part": pl.String, "phase": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
    (item,) = advice_on(parts=parts(blocked=0.5), moments=pl.DataFrame(rows, schema=schema, orient="row"))
    assert f"nothing computes, most of it {place}" in item.evidence


def test_small_packets_are_part_of_communication():
    assert [(item.cause, item.share) for item in advice_on(parts=parts(communication=0.5), packets=SMALL)] == [
        ("communication-bound", pytest.approx(0.5)),
        ("small-packets", pytest.approx(0.3)),
    ]
    waiting = advice_on(parts=parts(communication=0.5), packets=SMALL, late=Late(0.9, 20, 30 * MS, 4096))
    assert [item.cause for item in waiting] == ["late-rank"]


def test_barriers_are_named_where_they_take_longer_than_the_exchanges():
    calls = {"step": [0, 1], "bytes": [4096, 4096], "start_ns": [0, 50 * MS], "end_ns": [20 * MS, 70 * MS]}
    spans = {"name": [0, 1, 0], "start_ns": [20 * MS, 0, 70 * MS], "end_ns": [50 * MS, 20 * MS, 100 * MS]}
    names = pl.Series(["Barrier@0", "AllReduce@0"])
    late = overheads.late(pl.DataFrame(calls), [0, 1], pl.DataFrame(spans), names)
    assert (late.barriers, late.barriers_ns) == (2, 60 * MS)
    (item,) = advice_on(parts=parts(communication=0.5), late=late)
    words = "each of the 2 barriers takes 30.0 ms on average, and an exchange of 4.0 KiB takes 20.0 ms on average"
    assert f"steps; {words}, mostly waiting" in item.evidence
    (item,) = advice_on(parts=parts(communication=0.5), late=replace(late, barriers_ns=10 * MS))
    assert "barrier" not in item.evidence


@pytest.mark.parametrize(("part", "causes"), [("checkpoint", ["uneven-steps"]), ("computing", [])])
def test_uneven_steps_are_reported_where_they_wait(part, causes):
    table = parts(checkpoint=0.01).with_columns(
        pl.when((pl.col("step") == 4) & (pl.col("part") == part))
        .then(25 * MS)
        .otherwise("duration_ns")
        .alias("duration_ns")
    )
    statistics = {"count": 100, "median_ms": 10.0, "p95_ms": 31.0}
    found = [item for item in advice_on(parts=table, statistics=statistics) if item.cause != "checkpointing"]
    assert [item.cause for item in found] == causes
    assert all(item.step == 104 and "more on checkpoint" in item.evidence for item in found)
    # on a machine that is busy with other jobs, every job has uneven steps
    busy = advice_on(parts=table, statistics=statistics, crowd=Crowd(0.2, 0.2, 0.2))
    assert [item.cause for item in busy if item.cause != "checkpointing"] == []


def test_functions_that_the_host_runs_are_named():
    found = advice_on(parts=parts(host=0.7), launched=Launched("kernels", 20, 9), code=("slow at train.py:7 (91 %)",))
    (item,) = [item for item in found if item.cause == "host-bound"]
    assert "mostly slow at train.py:7 (91 %);" in item.evidence and item.action.startswith("Move this code")


def test_other_threads_of_the_process_that_run_meanwhile_are_told():
    (item,) = advice_on(parts=parts(blocked=0.5), crowd=Crowd(0.0, 0.0, 0.0, 0.92))
    assert item.evidence.endswith("; other threads of this process use 0.9 processors in these steps")
    assert "may be for Python's global interpreter lock: run this code in another process" in item.action
    beside = BatchTexts(beside="; functions of the dataset run for 1.00 s on other threads: ...")
    (item,) = advice_on(parts=parts(blocked=0.5), crowd=Crowd(0.0, 0.0, 0.0, 0.92), makers=beside)
    assert item.evidence.endswith(beside.beside) and "python_multiprocessing" in item.action
    (item,) = advice_on(parts=parts(blocked=0.5), crowd=Crowd(0.0, 0.0, 0.0, 0.3), makers=beside)
    assert "other threads" not in item.evidence and "lock:" not in item.action
    # on a busy machine, they have less of a processor than they want
    (item,) = advice_on(parts=parts(blocked=0.5), crowd=Crowd(0.0, 0.0, 0.0, 0.3, 3.6))
    assert item.evidence.endswith("; other threads of this process use 0.3 processors in these steps")
    (item,) = advice_on(parts=parts(blocked=0.5), crowd=Crowd(0.0, 0.0, 0.0, 0.05, 3.9))
    assert item.evidence.endswith("; other processes, perhaps of the job, use 3.9 processors in these steps")
    (item,) = advice_on(parts=parts(blocked=0.5), crowd=Crowd(0.0, 0.0, 0.0, 0.3, 30.0))  # mostly on other processors
    assert item.evidence.endswith("; other processes, perhaps of the job, use 30.0 processors in these steps")


def test_the_line_that_waits_is_named_if_the_wait_is_most_of_what_its_samples_show():
    where = "<module> at train.py:17 (92 %)"
    (item,) = [item for item in advice_on(parts=parts(blocked=0.5), code=(where,)) if item.cause == "host-waits"]
    assert f", mostly {where}" in item.evidence
    found = advice_on(parts=parts(blocked=0.3, host=0.5), code=(where,), launched=Launched("operators", 20, 9))
    (item,) = [item for item in found if item.cause == "host-waits"]
    assert where not in item.evidence


def test_functions_that_launch_are_named_and_those_of_other_work_beside_them():
    table, launched = parts(launch=0.3, host=0.4), Launched("operators", 900, 9)
    found = advice_on(parts=table, launched=launched, code=("env at rl.py:7 (91 %)", "ema at a.py:9 (60 %)"))
    evidence = {item.cause: item.evidence for item in found}
    assert evidence["launch-bound"].endswith("; launched by ema at a.py:9 (60 %)")
    assert "mostly env at rl.py:7 (91 %)" in evidence["host-bound"]
    assert "host-bound" not in [item.cause for item in advice_on(parts=table, launched=launched)]


def test_a_run_without_steps_gets_no_advice_about_its_imports_and_its_set_up():
    """Such a run counts as one step; the table of the whole run divides its time."""
    table, launched = parts(blocked=0.3, host=0.6), Launched("operators", 900, 9)
    assert [item.cause for item in advice_on(parts=table, launched=launched)] == ["host-bound", "host-waits"]
    assert advice_on(parts=table, launched=launched, whole=True) == []
    collected = {"pauses": Pauses(4, 20 * MS, 9 * MS, 0.2, 4), "parts": parts(**{"garbage collection": 0.2})}
    assert advice_on(**collected, whole=True) == []


def test_advice_about_a_run_without_steps_names_no_steps():
    (found,) = advice_on(parts=parts(data=0.5), whole=True)
    assert found.evidence.startswith("input-bound: 50.0 % of the run wait for data")


def test_launching_is_said_to_lie_where_most_of_it_is_and_to_fetch_values():
    pieces = phases((0, "forward", 0, 1000), (0, "other", 1000, 2200), (0, "optimizer", 2200, 2500))
    moments = pieces.with_columns(part=pl.lit("launch"))
    table, launched = parts(launch=0.8), Launched("operators", 900, 9)
    (item,) = advice_on(parts=table, launched=launched, moments=moments, reads=reads(171, name=READ))
    assert item.cause == "launch-bound"
    places = "; 48.0 % of the launching is outside of the model, 40.0 % in forward"
    assert item.evidence.endswith(f"{places}; 171 operators a step fetch a value (aten::item)")
    (item,) = advice_on(parts=table, launched=launched, moments=moments, reads=reads(9, name=READ))
    assert item.evidence.endswith(places)


def test_launches_that_other_threads_make_later_lie_where_the_script_called_the_operators():
    moments = phases((0, "forward", 0, 1000), (0, "other", 1000, 1200)).with_columns(part=pl.lit("launch"))
    table = parts(launch=0.8)
    for aside, where in (
        (800, "; the script calls 800 operators a step outside of the model, mostly AddExt"),
        (300, "; 83.3 % of the launching is in forward"),
    ):
        launched = Launched("kernels", 890, 9, outside=("AddExt",), aside=aside)
        (item,) = advice_on(parts=table, launched=launched, moments=moments)
        assert item.cause == "launch-bound" and item.evidence.endswith(where)


def test_operators_that_the_script_calls_outside_of_the_model_have_advice_though_computing_takes_as_long():
    pieces = phases((0, "forward", 0, 1000), (0, "other", 1000, 3000)).with_columns(part=pl.lit("launch"))
    launched = Launched("operators", 900, 9000, outside=("aten::mul", "aten::add"), aside=320.4)
    (item,) = advice_on(parts=parts(launch=0.36, computing=0.64), launched=launched, moments=pieces)
    assert (item.cause, item.share) == ("launch-bound", pytest.approx(0.24))
    assert "320 operators a step outside of the model, mostly aten::mul and aten::add; launching them" in item.evidence
    few = replace(launched, aside=4.0)
    assert advice_on(parts=parts(launch=0.36, computing=0.64), launched=few, moments=pieces) == []
    assert advice_on(parts=parts(launch=0.24, computing=0.76), launched=launched, moments=pieces) == []


def test_the_scripts_own_code_outside_of_the_model_comes_before_launches_that_take_less():
    table, launched = parts(launch=0.27, host=0.45), Launched("operators", 1282, 500)
    pieces = phases((0, "other", 0, 600), (0, "forward", 600, 1000))
    metric = pieces.with_columns(part=pl.lit("host"))
    found = advice_on(parts=table, launched=launched, moments=metric)
    assert [item.cause for item in found] == ["host-bound", "launch-bound"]
    slow = metric.with_columns(pl.col("phase").replace("other", "backward"))
    assert "host-bound" not in [item.cause for item in advice_on(parts=table, launched=launched, moments=slow)]


def test_the_code_of_a_closure_is_the_scripts():
    table, launched = parts(launch=0.3, host=0.5), Launched("operators", 2700, 500)
    pieces = phases((0, "optimizer", 0, 600), (0, "optimizer", 600, 1000))
    slow, work = (pieces.with_columns(part=pl.Series([first, "launch"])) for first in ("host", "computing"))
    known = {"parts": table, "launched": launched}
    closure = Optimizing(0.68, 0.2, 1600, closure=True)
    found = advice_on(**known, moments=slow, optimizing=closure)
    assert [item.cause for item in found] == ["host-bound", "launch-bound"]
    assert "optimizer-bound" in [item.cause for item in advice_on(**known, moments=work, optimizing=closure)]


@pytest.mark.parametrize(
    ("workers", "elsewhere", "told"), [(0.7, 0.1, True), (0.4, 0.0, False), (0.7, 0.9, False), (0.0, 0.0, False)]
)
def test_workers_that_take_the_processors_of_the_loop_are_named(workers, elsewhere, told):
    made = BatchTexts("; 2 workers made a batch in 11.2 ms")
    found = advice_on(crowd=Crowd(0.4, 0.5, 0.0, 0.6, elsewhere, workers), makers=made)
    assert [item.cause for item in found] == ["oversubscribed"] * told
    text = "; other processes of the job use 0.7 of 4 processors; 2 workers made a batch in 11.2 ms"
    assert all(item.evidence.endswith(text) for item in found)


def test_other_processes_that_compute_while_the_loop_sleeps_are_mentioned():
    for elsewhere, mentioned in ((0.4, False), (1.8, True)):
        (item,) = advice_on(parts=parts(blocked=0.5), crowd=Crowd(0.0, 0.0, 0.0, 0.1, elsewhere))
        text = "; other processes, perhaps of the job, use 1.8 processors in these steps"
        assert item.evidence.endswith(text) is mentioned, item.evidence
