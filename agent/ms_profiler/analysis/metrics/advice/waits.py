"""Advice about waits of the host: for data, files, other ranks, a lock, a processor."""

from collections.abc import Iterator
from typing import Final

from ms_profiler.analysis.metrics import bounds, checkpoint_files, critical_path, module_waits, verdict
from ms_profiler.analysis.metrics.advice.base import (
    SOME,
    Advice,
    Facts,
    length,
    percent,
    samples,
    size,
    worst_step,
    worth,
)
from ms_profiler.analysis.metrics.diagnosis import Diagnosis
from ms_profiler.analysis.metrics.phases import OTHER
from ms_profiler.analysis.metrics.scheduling import Crowd
from ms_profiler.analysis.metrics.worker_starts import Starts

#: too few processors are reported if the stepping thread waits for one during at least this share of the steps' time
CROWDED: Final = 0.2
#: other threads of the process, or other processes, are mentioned if they use at least this number of processors
BESIDE: Final = 0.5
#: other processes are taken to leave at least this part of a processor, so that a thread that hardly runs is not named
LEFT: Final = 0.2
#: a late rank is reported if waiting for other ranks takes at least this share of the exchanges' time
LATE: Final = 0.8
#: small packets are reported if small exchanges take at least this share of the time of all exchanges
SMALL_SHARE: Final = 0.5


#: what the job does with checkpoints -> words for it, and what to do
_FILES: Final = {
    checkpoint_files.WRITES: ("writing checkpoints", "Save checkpoints less often, or asynchronously."),
    checkpoint_files.READS: (
        "reading checkpoints",
        "Read a checkpoint once, before the loop, and keep its content in memory.",
    ),
    checkpoint_files.BOTH: ("writing and reading checkpoints", "Save and read checkpoints less often."),
}


def waits(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about waits for data, checkpoints and other ranks."""
    shares = found.shares
    # if the waits are for new workers, the advice about these names the cause
    restarted = _restarted(facts)
    if worth(found, bounds.DATA) and not (restarted and restarted.most):
        evidence, action = _data(found, facts)
        share = shares[bounds.DATA]
        evidence = f"input-bound: {percent(share)} of the steady steps wait for data{evidence}"
        yield Advice(
            "input-bound", bounds.DATA, share, evidence, action, worst_step(found, facts, bounds.DATA), facts.lane
        )
    share = shares[bounds.CHECKPOINT]
    if worth(found, bounds.CHECKPOINT):
        what, action = _FILES[found.files]
        evidence = f"{what} takes {percent(share)} of the steady steps"
        worst = worst_step(found, facts, bounds.CHECKPOINT)
        yield Advice("checkpointing", bounds.CHECKPOINT, share, evidence, action, worst, facts.lane)
    share = shares[bounds.COMMUNICATION]
    if not worth(found, bounds.COMMUNICATION):
        return
    cause = "communication-bound"
    evidence = f"communication that does not overlap with computing takes {percent(share)} of the steady steps"
    action = (
        "Overlap gradient exchange with the backward pass, or exchange fewer bytes; "
        "if one rank is late, all others wait for it here: compare the ranks."
    )
    if found.called is not None:
        name, part, count = found.called
        times = f"in one of {1 / count:,.0f} steps" if round(count) < 1 else f"{count:,.0f} times a step"
        times = "once a step" if round(count) == 1 else times
        evidence += f"; {percent(part)} of it is in {name}, which the script calls {times} outside of the passes"
        action = (
            f"Call {name} less often, or with fewer bytes: for example gather tensors in place of objects, and metrics "
            "only when they are shown; if one rank is late, all others wait for it here: compare the ranks."
        )
    if found.exchanged is not None:
        passes, count, sharded = found.exchanged
        evidence += f"; each of the {passes} backward passes of a step exchanges {size(count)} of gradients"
        action = "Exchange the gradients once a step: run all but its last backward pass in no_sync() of the model."
        if sharded:
            action = (
                "Exchange the gradients once a step, if there is memory for unsharded gradients: call "
                "set_requires_gradient_sync(False) of the model before all but the last backward pass of a step, or "
                "run these in no_sync() of FullyShardedDataParallel."
            )
    late = found.late
    if late is not None and late.share >= LATE:
        cause = "late-rank"
        exchanges = f"an exchange of {size(late.bytes)} takes {length(late.mean_ns)} on average"
        if late.barriers_ns > late.count * late.mean_ns:
            one = f"each of the {late.barriers} barriers takes" if late.barriers > 1 else "a barrier takes"
            exchanges = f"{one} {length(late.barriers_ns // late.barriers)} on average, and {exchanges}"
        evidence = f"late rank: {evidence}; {exchanges}, mostly waiting for the last rank"
        action = (
            "Compare the ranks: the rank that waits least is the late one. Find out why it takes longer than the "
            "others: its data, its own code, its machine."
        )
    yield Advice(
        cause,
        bounds.COMMUNICATION,
        share,
        evidence,
        action,
        worst_step(found, facts, bounds.COMMUNICATION),
        facts.lane,
    )


def blocked(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about sleep and blocking of the stepping thread outside of all recorded waits."""
    share = found.shares[bounds.BLOCKED]
    if found.whole or not worth(found, bounds.BLOCKED):
        return
    where = verdict.within(found.moments).get(bounds.BLOCKED, "")
    module = found.modules.get(bounds.BLOCKED, "")
    place = f"most of it {'outside of all phases' if where == OTHER else f'in {where}'}"
    if module:
        place = f"most of it in {module_waits.code(module)}"
    aside = sum(found.shares[part] for part in (bounds.HOST, bounds.RUNNABLE, bounds.UNKNOWN))
    # `facts.code.host` describes the blocked part and the parts of `aside` together. So the advice quotes it only if
    # the blocked part is at least as long as those parts
    functions = f", mostly {facts.code.host}" if facts.code.host and share >= aside else ""
    others = lock = ""
    if _beside(found.crowd, facts.processors):
        others = f"; other threads of this process use {found.crowd.beside:.1f} processors in these steps"
        others += facts.makers.beside or facts.code.beside
        lock = (
            " If one of the other threads runs Python code, the wait may be for Python's global interpreter lock: run "
            'this code in another process. With "host_sys": ["cpu"], the timeline shows how long each thread runs.'
        )
        lock += " The map of a dataset has python_multiprocessing for this." * bool(facts.makers.beside)
    elif found.crowd.elsewhere >= BESIDE:
        others = f"; other processes, perhaps of the job, use {found.crowd.elsewhere:.1f} processors in these steps"
    yield Advice(
        "host-waits",
        bounds.BLOCKED,
        share,
        f"host waits: in {percent(share)} of the steady steps {facts.lane} is asleep or blocked and nothing computes"
        f"{', ' + place if where or module else ''}{functions}"
        f"{verdict.in_few(verdict.few(found.moments, found.every), bounds.BLOCKED)}{others}",
        "Look in the trace at the gaps there: a sleep, a lock, a file, a socket or another process that the script "
        f"waits for. Move this wait out of the loop, or to another thread that runs ahead.{lock}{samples(facts)}",
        worst_step(found, facts, bounds.BLOCKED),
        facts.lane,
    )


def _beside(crowd: Crowd, processors: int) -> bool:
    """Return whether other threads of the process use `BESIDE` of a processor, or of what other processes leave of one.

    Args:
        crowd: the use of the processors in the steps.
        processors: number of processors that the job may use; 0 if unknown.
    """
    left = processors - crowd.elsewhere
    return crowd.beside >= BESIDE * (min(max(left, LEFT), 1.0) if left > 0 else 1.0)


def copies(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about copies of memory during which the device computes nothing."""
    own = found.copied
    if own is None or not worth(found, critical_path.COPY):
        return
    share = found.shares[critical_path.COPY]
    evidence = f"copy-bound: in {percent(share)} of the steady steps a device copies memory and computes nothing; "
    evidence += f"{own.per_step:,.1f} copies a step"
    if own.bandwidth is not None:
        evidence += f" of {size(own.bytes)}, at {size(own.bandwidth)}/s"
    if own.pageable:
        evidence += f"; {percent(own.pageable)} of their time is to or from pageable memory, where the host waits, too"
    action = "Copy less: keep data on the device, use smaller types. Copy the next batch on a separate stream."
    if facts.framework == "torch":
        action = (
            "Copy the next batch on a separate stream while the step computes (pin_memory=True of the DataLoader, "
            "non_blocking=True). Or copy less: keep data on the device, use smaller types."
        )
    worst = worst_step(found, facts, critical_path.COPY)
    yield Advice("copy-bound", critical_path.COPY, share, evidence, action, worst, f"stream {own.stream}")


def crowded(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about too few processors for the computing threads, or for the job's other processes beside them."""
    share, workers = found.crowd.queued, found.crowd.workers
    if share < CROWDED:
        return
    evidence = f"too few processors: {facts.lane} waits for one in {percent(share)} of the steady steps, "
    evidence += "also while it computes; "
    if facts.threads > facts.processors > 0:
        evidence += f"{facts.threads} threads compute each operator, on {facts.processors} processors"
        action = (
            "Use no more computing threads than processors (OMP_NUM_THREADS, torch.set_num_threads, workers of data), "
            "divide the processors among the ranks, and look for other jobs on the machine."
        )
    elif workers >= max(BESIDE, found.crowd.elsewhere) and facts.processors:
        evidence += f"other processes of the job use {workers:.1f} of {facts.processors} processors"
        evidence += facts.makers.words
        action = (
            "Make the work of these processes cheaper: prepare the data once, before the training. Or use fewer of "
            "them, fewer computing threads (OMP_NUM_THREADS, torch.set_num_threads), or more processors."
        )
    else:  # other programs cause the waits
        return
    yield Advice("oversubscribed", bounds.RUNNABLE, share, evidence, action, None, facts.lane)


def _data(found: Diagnosis, facts: Facts) -> tuple[str, str]:
    """Return the evidence and the action of the advice about waits for data.

    If the samples of a pipeline's queues show which operator is slow, evidence and action are about this operator.
    """
    evidence = ""
    if not found.waits.is_empty():
        name, count, total = found.waits.select("operation", "count", "total_ns").row(0)
        evidence = f"; {name}: {count} times, {length(total / count)} on average"
    finding = facts.pipelines[0].slowest() if facts.pipelines else None
    if finding is not None and finding.slow is not None:
        return f"{evidence}; {finding.evidence}{facts.makers.words}", finding.action
    evidence += facts.makers.words
    workers = "num_workers of the DataLoader" if facts.framework == "torch" else "num_parallel_workers"
    more = f"Give the dataset more workers ({workers}), prefetch, or move work out of the pipeline."
    more += samples(facts) if facts.framework == "torch" else ""  # MindSpore's functions are recorded without samples
    return evidence, facts.makers.remedy or more


def workers(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about data loaders that start and end their workers again and again."""
    starts = _restarted(facts)
    if starts is None:
        return
    create, longer, end = (length(ns / starts.iterators) for ns in (starts.create_ns, starts.first_ns, starts.end_ns))
    yield Advice(
        "worker-starts",
        "workers",
        starts.share,
        f"restarted workers: {starts.iterators} iterators of DataLoaders started workers of their own, which took "
        f"{percent(starts.share)} of the training: on average, {create} to create an iterator, {longer} more "
        f"to wait for its first batches than for others, {end} to end its workers",
        "Keep the workers: persistent_workers=True of the DataLoader. Longer epochs, rarer validations or fewer "
        "workers help, too.",
        None,
        facts.lane,
    )


def _restarted(facts: Facts) -> Starts | None:
    """Return the iterators that started workers of their own, if this takes enough of the training for advice."""
    return facts.starts if facts.starts is not None and facts.starts.share >= SOME else None


def exchanges(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about slow links and small packets."""
    share = found.shares[bounds.COMMUNICATION]
    for link in found.links[:1]:
        if link.duration_ns / max(facts.recorded_ns, 1) < SOME:
            continue
        yield Advice(
            "slow-link",
            "slow link",
            link.duration_ns / max(facts.recorded_ns, 1),
            f"{link.operation} in {link.group} reaches {size(link.bandwidth)}/s, in {link.best_group} "
            f"{size(link.best)}/s",
            "Look at the links between the ranks of that group: placement, cables, network; move heavy exchanges to "
            "faster links.",
            facts.numbers[link.step],
            link.group,
        )
    if found.late is not None and found.late.share >= LATE:
        return  # if ranks are late, small exchanges take long because they wait, so their size is not the cause
    small = found.packets
    if small is None or not worth(found, bounds.COMMUNICATION) or small.time_share < SMALL_SHARE:
        return
    yield Advice(
        "small-packets",
        "small packets",
        share * small.time_share,
        f"{small.small} of {small.count} exchanges have less than {size(small.half_bytes)}: most of their time is "
        f"latency ({length(small.latency_ns)}); they take {percent(small.time_share)} of the time of exchanges and "
        f"move {percent(small.bytes_share)} of the bytes",
        "Exchange more at once: larger gradient buckets, larger units of sharded parameters, fused all-reduce.",
    )
