"""What to try, the cause of the time first, each with the numbers that speak for it; nothing without them.

A cause is worth a word by what it takes of the steps (see `bounds.parts`). Waits are from a fixed share on, for they
could be none; launching operators, and what else the host does, are where they take far longer than computing, for then
the host bounds the step and not the work. Ranked by share; a leak that grows fast comes first, since it ends the job.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.diagnosis import Diagnosis
from ms_profiler.analysis.metrics import bounds, critical_path
from ms_profiler.analysis.metrics.pipelines import Pipeline
from ms_profiler.analysis.metrics.reads import READ

#: waits that take this part of the steps are worth a word
WORTH: Final = {bounds.DATA: 0.2, bounds.SYNC: 0.2, bounds.CHECKPOINT: 0.1, bounds.COMMUNICATION: 0.2}
#: compiling in more steps than this is not warming up any more
WARM_UP_STEPS: Final = 2
#: part of the steps that compiling again, a slow link, or collections of garbage have to take
SOME: Final = 0.1
#: collections that are a habit
PAUSES: Final = 3
#: operators, or kernels, a step that are many
MANY: Final = 200
#: how many times as long as they compute it takes to launch them, where that is the cause: recording adds to it too
FAR_LONGER: Final = 2.0
#: part of a step after its launch in which a kernel begins where kernels keep up with the host
CLOSE: Final = 0.25
#: growth over what was held before that is a leak first and everything else second
LEAK: Final = 0.1
#: part of the kernels' time on the processors of an NPU
AI_CPU_SHARE: Final = 0.01
#: part of the time of exchanges that small ones take together
SMALL_SHARE: Final = 0.5
#: the 95th percentile over the median from which steps are called uneven, and the steps that takes
UNEVEN: Final = 2.0
UNEVEN_STEPS: Final = 20
#: what runs on the processors of an NPU
AI_CPU: Final = "AI_CPU"
#: texts of a cause or a name that are shown
_LONGEST: Final = 160


@dataclass(frozen=True)
class Facts:
    """What else advice is told of a run.

    Attributes:
        numbers: of the steps, by row.
        lane: name of the stepping thread.
        framework: "mindspore", "torch".
        statistics: of the steady steps.
        compiled: steps (rows) that compiled something.
        recorded: recorded steps.
        recorded_ns: their time.
        types: of `kernels.by_type`.
        pipelines: dataset pipelines, the most important one first.
    """

    numbers: list[int]
    lane: str
    framework: str
    statistics: dict[str, Any]
    compiled: list[int]
    recorded: int
    recorded_ns: int
    types: pl.DataFrame
    pipelines: Sequence[Pipeline] = field(default_factory=list)


@dataclass(frozen=True)
class Advice:
    """One thing worth trying.

    Attributes:
        cause: what it is, for programs.
        what: subject, in a word or two.
        share: of the steps that it takes; of what it is a part of, where that is no time.
        evidence: numbers.
        action: what to try.
        step: number of the step that shows it best; None where there is none.
        lane: thread or stream on which it is seen; empty where there is none.
        first: it comes before whatever takes more time.
    """

    cause: str
    what: str
    share: float
    evidence: str
    action: str
    step: int | None = None
    lane: str = ""
    first: bool = False


def ranked(found: Diagnosis, facts: Facts) -> list[Advice]:
    """Return what is worth trying, the cause first.

    Args:
        found: why steps take as long as they do.
        facts: what else is known of the run.
    """
    causes = (_waits, _reads, _host, _compiling, _memory, _pauses, _fallbacks, _exchanges, _uneven)
    told = [item for cause in causes for item in cause(found, facts)]
    return sorted(told, key=lambda item: (not item.first, -item.share))


def _waits(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    shares = found.shares
    actions = {
        bounds.CHECKPOINT: ("checkpointing", "Save checkpoints less often, or asynchronously."),
        bounds.COMMUNICATION: (
            "communication-bound",
            "Overlap gradient exchange with the backward pass, or exchange fewer bytes; "
            "where one rank is late, all others wait in here: compare the ranks.",
        ),
    }
    if shares[bounds.DATA] >= WORTH[bounds.DATA]:
        evidence, action = _data(found, facts)
        share = shares[bounds.DATA]
        evidence = f"input-bound: {_percent(share)} of the steady steps wait for data{evidence}"
        yield Advice("input-bound", bounds.DATA, share, evidence, action, _worst(found, facts, bounds.DATA), facts.lane)
    for part, (cause, action) in actions.items():
        share = shares[part]
        if share >= WORTH[part]:
            evidence = f"{_percent(share)} of the steady steps"
            yield Advice(cause, part, share, evidence, action, _worst(found, facts, part), facts.lane)


def _data(found: Diagnosis, facts: Facts) -> tuple[str, str]:
    """Return evidence and action for data: what a pipeline's queues say where they say something."""
    evidence = ""
    if not found.waits.is_empty():
        name, count, total = found.waits.select("operation", "count", "total_ns").row(0)
        evidence = f"; {name}: {count} times, {_time(total / count)} on average"
    finding = facts.pipelines[0].slowest() if facts.pipelines else None
    if finding is not None and finding.slow is not None:
        return f"{evidence}; {finding.evidence}", finding.action
    workers = "num_workers of the DataLoader" if facts.framework == "torch" else "num_parallel_workers"
    return evidence, f"Give the dataset more workers ({workers}), prefetch, or move work out of the pipeline."


def _reads(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    share = found.shares[bounds.SYNC]
    steps = max(found.parts["step"].n_unique(), 1)
    per_step = found.reads.height / steps
    # what a device did meanwhile is not known: one read a step may wait for work that has to be done anyway
    if share < WORTH[bounds.SYNC] or found.reads.is_empty() or (found.accelerator and per_step <= 1):
        return
    counts = found.reads.group_by("name").len().sort("len", "name", descending=[True, False])
    name = "aten::item" if counts["name"][0] == READ else counts["name"][0]
    evidence = f"sync-bound: {per_step:,.1f} synchronisation points a step, mostly {name}"
    modules = found.reads.drop_nulls("module").group_by("module").len().sort("len", "module", descending=[True, False])
    if not modules.is_empty() and 2 * modules["len"][0] > found.reads.height:
        evidence += f" in {modules['module'][0]}"
    most = found.reads.group_by("step").len().sort("len", "step", descending=[True, False]).row(0)
    evidence += f"; for {_percent(share)} of the steady steps nothing computes and nothing can be queued ahead of them"
    yield Advice(
        "sync-bound",
        bounds.SYNC,
        share,
        evidence,
        "Fetch values (item, tolist, asnumpy, bool or print of a tensor) less often, once for many: each makes the "
        "host wait for everything that was queued, and keeps operators from being queued or compiled together.",
        facts.numbers[most[0]],
        facts.lane,
    )


def _host(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    shares, launched = found.shares, found.launched
    if launched is None:
        return
    computing = shares[bounds.COMPUTING]
    numbers = f"{launched.per_step:,.0f} {launched.what} a step, half of them shorter than {_time(launched.median_ns)}"
    launch, host = shares[bounds.LAUNCH], shares[bounds.HOST]
    least = max(FAR_LONGER * computing, WORTH[bounds.DATA])
    # where threads have to share a processor, some launches take as long as other work of the host
    many = launched.per_step >= MANY and launch >= host / 2
    share, due = launch, launch + host >= least
    takes = f"launching them takes {_percent(launch)} of the steady steps, what they compute {_percent(computing)}"
    if not due and launched.behind is not None and launched.behind <= CLOSE:
        # kernels that keep up with a host that waits for none of them may take as long as they like
        path = critical_path.shares(found.path)
        computed, share = path.get(bounds.COMPUTING, 0.0), path.get(bounds.LAUNCH, 0.0) + path.get(bounds.HOST, 0.0)
        takes = f"the host that queues them is {_percent(share)} of the critical path, computing {_percent(computed)}"
        due = share >= max(FAR_LONGER * computed, WORTH[bounds.DATA])
    if many and due:
        yield Advice(
            "launch-bound",
            bounds.LAUNCH,
            share,
            f"launch-bound: {numbers}; {takes}",
            "Make fewer and larger operators: batch or vectorise the loop that calls them, use fused ones, or compile "
            "the model (torch.compile, mindspore.jit).",
            _worst(found, facts, bounds.LAUNCH),
            facts.lane,
        )
    if not many and host >= least:
        yield Advice(
            "host-bound",
            bounds.HOST,
            host,
            f"host-bound: in {_percent(host)} of the steady steps nothing computes while the host runs code between "
            f"{launched.what}, each time for longer than {_time(bounds.GAP)}; computing takes {_percent(computing)}",
            "Look in the trace at what the script does between operators, and move it out of the loop or to a thread.",
            _worst(found, facts, bounds.HOST),
            facts.lane,
        )


def _compiling(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    again = set(found.recompiles["step"].to_list())
    if not again and len(facts.compiled) > WARM_UP_STEPS:
        again = set(facts.compiled[1:])
    if len(facts.compiled) <= WARM_UP_STEPS or not again:
        return
    first = sum(time for step, time in found.compile_ns.items() if step not in again)
    repeated = sum(found.compile_ns.get(step, 0) for step in again)
    # compiled once, a graph is used for as long as the job runs
    share = repeated / max(facts.recorded_ns - first, 1)
    if share < SOME:
        return
    worst = max(again, key=lambda step: (found.compile_ns.get(step, 0), -step))
    evidence = (
        f"recompiling: {len(again)} of {facts.recorded} recorded steps compiled again, {_percent(share)} of the time"
    )
    causes = found.recompiles.group_by("text").len().sort("len", "text", descending=[True, False])
    if not causes.is_empty():
        text, count = causes.row(0)
        evidence += f"; {count} times: {text[:_LONGEST]}" if count > 1 else f"; {text[:_LONGEST]}"
    yield Advice(
        "recompiling",
        bounds.COMPILE,
        share,
        evidence,
        "Keep shapes constant (drop_remainder, drop_last, padding, buckets) or declare them dynamic (dynamic=True, "
        "set_inputs), and make compiled objects once, so that a graph is reused.",
        facts.numbers[worst],
        facts.lane,
    )


def _memory(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    leak = found.growth
    if leak is None:
        return
    relative = leak.total / max(leak.held - leak.total, 1)
    yield Advice(
        "memory-growth",
        "memory",
        min(relative, 1.0),
        f"memory growth: the process holds {_bytes(leak.per_step)} more after each step, {_bytes(leak.total)} from "
        f"step {leak.first} to step {leak.last}, when it held {_bytes(leak.held)}",
        "Look for what outlives its step: lists of losses or outputs (keep numbers, or detach), caches, graphs that "
        "are held for a backward pass that never comes.",
        leak.last,
        first=relative >= LEAK,
    )


def _pauses(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    pauses = found.pauses
    if pauses is None or pauses.share < SOME or pauses.count < PAUSES:
        return
    yield Advice(
        "gc-pauses",
        "garbage collection",
        pauses.share,
        f"{pauses.count} collections by Python take {_percent(pauses.share)} of the steps, the longest "
        f"{_time(pauses.longest_ns)}",
        "Call gc.freeze() once the model is built, collect by hand between epochs (gc.disable, gc.collect), and make "
        "fewer objects in the loop.",
        facts.numbers[pauses.step],
        facts.lane,
    )


def _fallbacks(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    slow = facts.types.filter(pl.col("core") == AI_CPU)
    share = float(slow["ratio"].sum())
    if slow.is_empty() or share < AI_CPU_SHARE:
        return
    names = ", ".join(slow["name"].head(3))
    yield Advice(
        "aicpu-fallback",
        "AI CPU",
        share,
        f"{slow['count'].sum()} kernels ({names}) run on the NPU's AI CPU and take {_percent(share)} of the "
        "kernels' time",
        "Change their data type (int64 and double mostly fall back) or use an operator that an AI Core has.",
        lane=AI_CPU,
    )


def _exchanges(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    share = found.shares[bounds.COMMUNICATION]
    for link in found.links[:1]:
        if link.duration_ns / max(facts.recorded_ns, 1) < SOME:
            continue
        yield Advice(
            "slow-link",
            "slow link",
            link.duration_ns / max(facts.recorded_ns, 1),
            f"{link.operation} in {link.group} reaches {_bytes(link.bandwidth)}/s, in {link.best_group} "
            f"{_bytes(link.best)}/s",
            "Look at the links between the ranks of that group: placement, cables, network; move heavy exchanges to "
            "faster ones.",
            facts.numbers[link.step],
            link.group,
        )
    small = found.packets
    if small is None or share < WORTH[bounds.COMMUNICATION] or small.time_share < SMALL_SHARE:
        return
    yield Advice(
        "small-packets",
        "small packets",
        share * small.time_share,
        f"{small.small} of {small.count} exchanges have less than {_bytes(small.half_bytes)}, of which most time is "
        f"latency ({_time(small.latency_ns)}); they take {_percent(small.time_share)} of the time of exchanges for "
        f"{_percent(small.bytes_share)} of the bytes",
        "Exchange more at once: larger gradient buckets, fused all-reduce.",
    )


def _uneven(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield what slow steps spend more time on than others, unless that is their work: then the machine was busy."""
    median, tail = facts.statistics["median_ms"], facts.statistics["p95_ms"]
    if facts.statistics["count"] < UNEVEN_STEPS or not median or tail <= UNEVEN * median:
        return
    steps = found.parts.group_by("step").agg(pl.col("duration_ns").sum().alias("whole"))
    slow = (pl.col("whole") > UNEVEN * median * 1e6).alias("slow")
    counts = dict(steps.group_by(slow).len().iter_rows())
    if not counts.get(True) or not counts.get(False):
        return
    means = found.parts.join(steps, on="step").group_by("part", slow).agg(pl.col("duration_ns").sum())
    excess: dict[str, float] = {}
    for part, is_slow, total in means.iter_rows():
        excess[part] = excess.get(part, 0.0) + (1 if is_slow else -1) * total / counts[is_slow]
    part = max(excess, key=lambda name: excess[name])
    if part in (bounds.COMPUTING, bounds.LAUNCH) or 2 * excess[part] < sum(excess.values()):
        return
    worst = _worst(found, facts, part)
    yield Advice(
        "uneven-steps",
        "uneven steps",
        0.0,
        f"95th percentile {tail:.3f} ms, median {median:.3f} ms; {counts[True]} slow steps spend {_time(excess[part])} "
        f"more on {part} than others",
        f"Look in the trace at what {part} is in step {worst}.",
        worst,
        facts.lane,
    )


def _worst(found: Diagnosis, facts: Facts, part: str) -> int | None:
    """Return the number of the step with most of a part."""
    rows = found.parts.filter(pl.col("part") == part).sort("duration_ns", "step", descending=[True, False])
    return None if rows.is_empty() else facts.numbers[rows["step"][0]]


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _time(nanoseconds: float) -> str:
    if nanoseconds < 1e6:
        return f"{nanoseconds / 1e3:.1f} us"
    return f"{nanoseconds / 1e6:.1f} ms" if nanoseconds < 1e9 else f"{nanoseconds / 1e9:.2f} s"


def _bytes(size: float) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 1024:
            return f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"
