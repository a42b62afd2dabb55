"""Advice about avoidable work of a step: reads of values, launches, casts, the optimizer, slow kernels."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, intervals, module_waits, wording
from ms_profiler.analysis.metrics.advice.base import WORTH, Advice, Facts, length, percent, samples, worst_step, worth
from ms_profiler.analysis.metrics.diagnosis import Diagnosis
from ms_profiler.analysis.metrics.phases import NAMES, OTHER
from ms_profiler.analysis.metrics.reads import READ
from ms_profiler.store.format import Category
from ms_profiler.store.names import LEARNING_RATE

#: the phase of optimizers
OPTIMIZER: Final = NAMES[Category.OPTIMIZER]

#: action of the advice if the host's own code takes long and it is unknown which functions run
LOOK: Final = (
    "Look in the trace at the work of the script between operators, and move it out of the loop or to a thread."
)
#: the optimizer is reported if it takes at least this share of the steps' time without waits for a processor
OPTIMIZING: Final = 0.4
#: PyTorch's optimizers that work on all parameters at once with the option `foreach`, or also with `fused`
FOREACH: Final = ("ASGD", "Adadelta", "Adafactor", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop")
FUSED: Final = ("Adagrad", "Adam", "AdamW", "SGD")
#: if the optimizer is reported, it counts as unfused if launching takes at least this share of the optimizer's time
UNFUSED: Final = 0.5
#: casts are reported if they take at least this share of the steps' time
CASTING: Final = 0.15
#: reads of values are named as the cause of long launching if at least this share of the launching time lies between
#: two reads that are close together
READING: Final = 0.4
#: as a fact beside another cause, reads are named if a step has at least this number of them
FETCHES: Final = 10
#: reads of values have advice of their own if launching between close reads takes at least this share of the steps
FETCHING: Final = 0.1
#: code of the host is the script's own if at least this share of it lies outside of the model, or in a closure
OUTSIDE: Final = 0.5
#: a phase is named if it has at least this share of the launching
SHARE: Final = 0.2
FETCH: Final = (
    "Fetch values (item, tolist, asnumpy, bool or print of a tensor) less often, and many at once: each fetch is "
    "an operator of its own, waits for the work that is still queued, and keeps the operators before and after it from "
    "being compiled together."
)
#: A step has many launches if it has at least `MANY` operators or kernels. If launching the kernels of a device takes
#: more time than any other part, `SOME` kernels are many, because the device has nothing to do meanwhile. A step with
#: fewer kernels has hardly any operators to merge.
MANY: Final = 200
SOME: Final = 20
#: launching is reported if it takes at least this many times as long as computing. The factor is large, because
#: recording lengthens launching
FAR_LONGER: Final = 2.0
#: kernels keep up with the host if the median time from launch to start of a kernel is at most this share of a step
CLOSE: Final = 0.25
#: kernels on the AI CPU of an NPU are reported if they take at least this share of the time of all kernels
AI_CPU_SHARE: Final = 0.01
#: core type of kernels that run on the slow processors of an NPU instead of its AI Cores
AI_CPU: Final = "AI_CPU"


def checks(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about PyTorch's anomaly detection, whatever it costs: it is meant for the search for a fault."""
    if found.checks is not None:
        yield Advice(
            "anomaly-detection",
            bounds.LAUNCH,
            found.checks.share,
            f"anomaly detection: autograd looks for NaN in {found.checks.per_step:,.0f} gradients a step, which takes "
            f"{percent(found.checks.share)} of the steady steps; it also stores a traceback for each forward operator",
            "Call torch.autograd.set_detect_anomaly(False), or leave out detect_anomaly, once the fault is found.",
            lane=facts.lane,
        )


def reads(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about reads of values, which keep the host from queueing work."""
    share = found.shares[bounds.SYNC]
    steps = max(found.parts["step"].n_unique(), 1)
    per_step = found.reads.height / steps
    # if the device was not recorded, a single read per step may wait for work that the step needs in any case
    if (
        not worth(found, bounds.SYNC)
        or _of_checks(found, per_step)
        or found.reads.is_empty()
        or (found.accelerator and per_step <= 1)
    ):
        return
    counts = found.reads.group_by("name").len().sort("len", "name", descending=[True, False])
    name = "aten::item" if counts["name"][0] == READ else counts["name"][0]
    evidence = f"sync-bound: {per_step:,.1f} synchronisation points a step, mostly {name}"
    modules = found.reads.drop_nulls("module").group_by("module").len().sort("len", "module", descending=[True, False])
    if not modules.is_empty() and 2 * modules["len"][0] > found.reads.height:
        evidence += f" in {modules['module'][0]}"
    most = found.reads.group_by("step").len().sort("len", "step", descending=[True, False]).row(0)
    evidence += f"; in {percent(share)} of the steady steps nothing computes, and the host cannot queue work ahead"
    yield Advice(
        "sync-bound",
        bounds.SYNC,
        share,
        evidence,
        FETCH,
        facts.numbers[most[0]],
        facts.lane,
    )


def _of_checks(found: Diagnosis, per_step: float) -> bool:
    """Return whether at least half of the reads of values in a step belong to PyTorch's anomaly detection."""
    return found.checks is not None and 2 * found.checks.per_step >= per_step


def _where(found: Diagnosis) -> str:
    """Return text about the phases in which most launching is, after a semicolon; empty if it is spread over many."""
    if found.launched is not None and found.launched.queued:
        return ""
    launches = found.moments.filter(pl.col("part") == bounds.LAUNCH)
    length = (pl.col("end_ns") - pl.col("start_ns")).sum()
    sums = launches.group_by("phase").agg(length.alias("ns")).sort("ns", "phase", descending=[True, False])
    whole = max(int(sums["ns"].sum()), 1)
    called = found.launched.outside if found.launched is not None else ()
    outside = f"outside of the model (mostly {wording.series(called)})" if called else "outside of the model"
    places = [
        (percent(ns / whole), outside if phase == OTHER else f"in {phase}")
        for phase, ns in sums.iter_rows()
        if ns >= SHARE * whole
    ]
    if not places:
        return ""
    (share, place), *others = places
    return "".join([f"; {share} of the launching is {place}", *(f", {share} {place}" for share, place in others)])


def host(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about launches, or other code of the host, that take far longer than computing."""
    shares, launched = found.shares, found.launched
    if launched is None or found.whole:
        return
    computing = shares[bounds.COMPUTING]
    numbers = f"{launched.per_step:,.0f} {launched.what} a step, half of them shorter than {length(launched.median_ns)}"
    launch, host = shares[bounds.LAUNCH], shares[bounds.HOST] + shares[bounds.UNKNOWN]
    worth_host = WORTH[bounds.LAUNCH] * (1 - shares[bounds.RUNNABLE] - found.delayed.lost)
    least = max(FAR_LONGER * computing, worth_host)
    # launching needs to be only half as long as other work of the host. If threads share a processor, some launches
    # take so long that they count as other work
    numerous = launched.per_step >= MANY and launch >= host / 2
    many = numerous or (found.launching and launched.per_step >= SOME)
    share, due = launch, launch + host >= least
    takes = f"launching them takes {percent(launch)} of the steady steps, computing takes {percent(computing)}"
    if not due and launched.behind is not None and launched.behind <= CLOSE and not worth(found, bounds.SYNC):
        # if kernels start soon after their launch and the host does not wait for them, the total time of the kernels is
        # misleading: the host's time is compared with the time of computing on the critical path instead
        path = found.path_shares
        computed = path.get(bounds.COMPUTING, 0.0)
        share = sum(path.get(part, 0.0) for part in (bounds.LAUNCH, bounds.HOST, bounds.UNKNOWN))
        takes = f"on the critical path, the host takes {percent(share)}, computing takes {percent(computed)}"
        due = share >= max(FAR_LONGER * computed, worth_host)
    fetches = found.reads.filter(pl.col("name") == READ).height / max(found.parts["step"].n_unique(), 1)
    scripts_own = not _of_checks(found, fetches)
    reading = found.reading if scripts_own else 0.0
    scattered = _share(found.moments, "part", bounds.LAUNCH, "phase", [OTHER])
    calls = f"the script calls {launched.aside:,.0f} operators a step outside of the model"
    calls += f", mostly {wording.series(launched.outside)}" if launched.outside else ""
    if many and due and share >= worth_host and not _optimizes(found):
        cause = "launch-bound"
        action = (
            "Make fewer and larger operators: batch or vectorise the loop that calls them, use fused operators, or "
            "compile the model (torch.compile, mindspore.jit)."
        )
        if reading >= READING:
            cause, action = "sync-bound", FETCH
            takes += f"; {fetches:,.1f} of them a step fetch a value (aten::item), with almost no operator between"
        else:
            takes += f"; launched by {facts.code.launch}" if facts.code.launch else _where(found)
            takes += f"; {fetches:,.0f} operators a step fetch a value (aten::item)" * (
                fetches >= FETCHES and scripts_own
            )
        takes += f"; {calls}" if launched.queued else f"; {facts.module}" if facts.module else ""
        worst = worst_step(found, facts, bounds.LAUNCH)
        yield Advice(cause, bounds.LAUNCH, share, f"{cause}: {numbers}; {takes}", action, worst, facts.lane)
    elif reading * launch >= FETCHING:
        yield Advice(
            "sync-bound",
            bounds.LAUNCH,
            reading * launch,
            f"sync-bound: {fetches:,.0f} operators a step fetch a value (aten::item), with almost no operator between; "
            f"launching them takes {percent(reading * launch)} of the steady steps",
            FETCH,
            worst_step(found, facts, bounds.LAUNCH),
            facts.lane,
        )
    elif launched.aside >= SOME and launch * scattered >= WORTH[bounds.LAUNCH] and not _optimizes(found):
        yield Advice(
            "launch-bound",
            bounds.LAUNCH,
            launch * scattered,
            f"launch-bound: {calls}; launching them takes {percent(launch * scattered)} of the steady steps",
            "Call them in fewer steps, or for many tensors at once (stacked tensors, torch._foreach functions), or "
            "compile the function that calls them.",
            worst_step(found, facts, bounds.LAUNCH),
            facts.lane,
        )
    # the script's own work is reported even if computing takes longer, because this work can move to another thread. If
    # launches are also reported, this work may consist of slow launches. So it is then reported only if it takes at
    # least as long as launching, and its functions are known or it lies outside of the model, or in a closure
    scripts = [OTHER, OPTIMIZER] if found.optimizing.closure else [OTHER]
    known = bool(facts.code.host) or _share(found.moments, "part", bounds.HOST, "phase", scripts) >= OUTSIDE
    alone = not (numerous and due) or (known and host >= launch)
    if alone and (host >= least or worth(found, bounds.HOST)):
        yield Advice(
            "host-bound",
            bounds.HOST,
            host,
            f"host-bound: in {percent(host)} of the steady steps nothing computes while the host runs code other than "
            f"{launched.what}{_module(found)}{_functions(facts)}; computing takes {percent(computing)}",
            "Move this code out of the loop or to a thread, or make it faster."
            if facts.code.host
            else f"{LOOK}{samples(facts)}",
            worst_step(found, facts, bounds.HOST if shares[bounds.HOST] else bounds.UNKNOWN),
            facts.lane,
        )


def optimizer(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about an optimizer that takes a large share of a step."""
    own = found.optimizing
    if not _optimizes(found):
        return
    rates = own.name == LEARNING_RATE
    many = own.per_step is not None and own.per_step >= MANY and own.launching >= UNFUSED * own.share and not rates
    count = "" if own.per_step is None else f", {own.per_step:,.0f} {_what(found)} a step"
    closure = " and its closure, without forward and backward passes," if own.closure else ""
    yield Advice(
        "unfused-optimizer" if many else "optimizer-bound",
        "optimizer",
        own.share,
        f"the work of the optimizer{closure} takes {percent(own.share)} of the steady steps{count}"
        + (f"; launching them takes {percent(own.launching)} of the steady steps" if many else "")
        + (f"; {module_waits.SCHEDULER} takes {percent(own.longest)} of the steady steps" if rates else ""),
        "Make the function that computes learning rates faster, or compute the rates before the loop."
        if rates
        else _fused(own.name, facts)
        if many
        else "The optimizer touches every parameter in each step: use it once for several batches (accumulate "
        "gradients), make batches larger, or use a fused optimizer or an optimizer with less state.",
        worst_step(found, facts, bounds.LAUNCH if many else bounds.COMPUTING),
        facts.lane,
    )


def _optimizes(found: Diagnosis) -> bool:
    own = found.optimizing
    work = found.moments.filter(pl.col("part").is_in([bounds.HOST, bounds.LAUNCH, bounds.COMPUTING]))
    # the code of a closure belongs to the script, not to the optimizer
    slow = own.closure and _share(work, "phase", OPTIMIZER, "part", [bounds.HOST]) >= OUTSIDE
    return not slow and own.share >= OPTIMIZING * (1 - found.shares[bounds.RUNNABLE])


def _share(moments: pl.DataFrame, column: str, value: str, other: str, values: list[str]) -> float:
    """Return how much of the time with a value in one column has some of the values in another column.

    Args:
        moments: the pieces of the steps, with `part` and `phase`.
        column: the first column.
        value: its value.
        other: the other column.
        values: the values of the other column.
    """
    whole = moments.filter(pl.col(column) == value)
    return intervals.total_ns(whole.filter(pl.col(other).is_in(values))) / max(intervals.total_ns(whole), 1)


def _fused(name: str, facts: Facts) -> str:
    """Return the action of the advice about an optimizer of the class `name` that launches many operators."""
    if facts.framework != "torch":
        return "Use an optimizer that works on many parameters at once: one of mindspore.mint.optim or a compiled one."
    if name in (*FUSED, *FOREACH):
        options = "fused=True or foreach=True" if name in FUSED else "foreach=True"
        return f"Let the optimizer work on many parameters at once: {options}."
    return "Use an optimizer that works on many parameters at once, or compile its step (torch.compile)."


def casts(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about casts (changes of the data type)."""
    own = found.casts
    if own is None or own.share < CASTING:
        return
    yield Advice(
        "casting",
        "casts",
        own.share,
        f"changing data types ({own.name}, {own.per_step:,.1f} a step) takes {percent(own.share)} of the steady steps",
        "Keep parameters and inputs in the type in which they are computed: convert once, before the loop. On a "
        "processor without instructions for bfloat16, this type only costs time.",
        worst_step(found, facts, bounds.COMPUTING),
        facts.lane,
    )


def _module(found: Diagnosis) -> str:
    module = found.modules.get(bounds.HOST, "")
    return f", most of it in {module_waits.code(module)}" if module else ""


def _functions(facts: Facts) -> str:
    return f", mostly {facts.code.host}" if facts.code.host else ""


def _what(found: Diagnosis) -> str:
    return "operators" if found.launched is None else found.launched.what


def fallbacks(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about kernels that run on the slow processors of an NPU."""
    slow = facts.types.filter(pl.col("core") == AI_CPU)
    share = float(slow["ratio"].sum())
    if slow.is_empty() or share < AI_CPU_SHARE:
        return
    names = ", ".join(slow["name"].head(3))
    yield Advice(
        "aicpu-fallback",
        "AI CPU",
        share,
        f"{slow['count'].sum()} kernels ({names}) run on the NPU's AI CPU and take {percent(share)} of the "
        "kernels' time",
        "Change their data type (int64 and double mostly fall back) or use an operator that an AI Core has.",
        lane=AI_CPU,
    )
