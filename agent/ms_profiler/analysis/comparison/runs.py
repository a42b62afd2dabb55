"""Find the runs at a path, and merge the ranks of each launch into one digest (a small record of the run's figures)."""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, replace
from typing import Final

from ms_profiler.analysis.comparison import outside_steps, rank_work
from ms_profiler.analysis.comparison.digest import (
    Average,
    Cell,
    Completeness,
    Count,
    DataWait,
    Digest,
    Fingerprint,
    Memory,
    Module,
    Named,
)
from ms_profiler.analysis.comparison.step_time import StepTime
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.model import clock
from ms_profiler.errors import StoreError, UsageError

#: results belong to one launch only if their runs began within this time, in ns
TOGETHER: Final = 300 * 10**9


def digest(path: str) -> Digest:
    """Return the digest of the one run at a path.

    Args:
        path: a result directory of ms-profiler or of another tool, a trace, or a directory that holds the results of
            all ranks of a launch.

    Raises:
        StoreError: nothing there can be read.
        UsageError: there are several runs.
    """
    found = digests(path)
    if len(found) > 1:
        raise UsageError(f"{path} holds {len(found)} runs, not one.", "Name one of them, or compare all as repeats.")
    return found[0]


def digests(path: str, without: Collection[str] = (), callback: Callable[[str], None] | None = None) -> list[Digest]:
    """Return the digest of each run at a path, in the order in which they began.

    Args:
        path: a path as for `digest`, or a directory that holds several runs.
        without: the real paths of results there that are left out.
        callback: called with each result before it is read.

    Raises:
        StoreError: nothing there can be read.
    """
    parts = []
    for result in engine.find([path]):
        if os.path.realpath(result) in without:
            continue
        if callback is not None:
            callback(result)
        parts.append(of_result(result))
    merged = [merge(launch) for launch in launches(parts)]
    if len(merged) == 1:
        return [replace(merged[0], source=os.path.basename(os.path.abspath(path)))]
    return merged


def of_result(path: str) -> Digest:
    """Return the digest of one result.

    Args:
        path: the path of the result.

    Raises:
        StoreError: it cannot be read.
    """
    from ms_profiler.analysis.comparison.condensing import condense

    return condense(engine.measured(path))


def launches(parts: Sequence[Digest]) -> list[list[Digest]]:
    """Group results into launches. A launch has one result per rank, and its ranks began within `TOGETHER`.

    Results with the same name of a launch are grouped first. Each machine, or each rank, may have a launcher of its
    own. So groups with different names belong together, too, unless one of them ended before the other began.

    Args:
        parts: the digests, one for each result.
    """
    named: dict[tuple[str, str], list[Digest]] = {}
    for part in parts:
        named.setdefault((part.fingerprint.host, part.job), []).append(part)
    groups: list[list[Digest]] = []
    for (_, job), known in named.items():
        groups += _joined([[part] for part in known]) if job else [[part] for part in known]
    return [sorted(launch, key=lambda part: part.completeness.present) for launch in _joined(groups)]


def _joined(groups: Sequence[list[Digest]]) -> list[list[Digest]]:
    """Return launches: join each group with the first launch that has none of its ranks and ran at the same time."""
    found: list[list[Digest]] = []
    for group in sorted(groups, key=lambda group: min(_order(part) for part in group)):
        for launch in found:
            if _together(launch, group):
                launch += group
                break
        else:
            found.append(list(group))
    return found


def _order(part: Digest) -> tuple[int, tuple[int, ...], str]:
    return part.started_ns, part.completeness.present, part.source


def _together(launch: Sequence[Digest], group: Sequence[Digest]) -> bool:
    first, second = launch[0], group[0]
    # other tools do not always report the number of ranks, so for their results it need not be equal
    foreign = second.completeness.ended == ("",)
    if second.completeness.expected <= 1 and not foreign:
        return False
    if first.completeness.expected != second.completeness.expected and not foreign:
        return False
    ranks = [{rank for part in side for rank in part.completeness.present} for side in (launch, group)]
    if ranks[0] & ranks[1] or abs(first.started_ns - second.started_ns) > TOGETHER:
        return False
    if not (first.job and second.job) or (first.fingerprint.host, first.job) == (second.fingerprint.host, second.job):
        return True
    clocks = clock.MACHINES_NS if first.fingerprint.host != second.fingerprint.host else 0
    ends, begins = (max(part.ended_ns for part in launch), min(part.started_ns for part in group))
    return begins <= ends + clocks


def merge(parts: Sequence[Digest]) -> Digest:
    """Merge the digests of a launch's ranks into one digest; times and counts are means over the ranks.

    Args:
        parts: the digests, one for each rank, at least one.

    Raises:
        StoreError: `parts` is empty.
    """
    if not parts:
        raise StoreError("There is no result to compare.")
    first = parts[0]
    if len(parts) == 1:
        return first
    slowest = max(parts, key=lambda part: part.step.median_ns)
    whole = [part.completeness for part in parts]
    slow = [part for part in parts if part.slow_transform]
    return replace(
        first,
        step=StepTime(
            median_ns=_mean([part.step.median_ns for part in parts]),
            first_ns=_most([part.step.first_ns for part in parts]),
            durations_ns=slowest.step.durations_ns,
            count=min(part.step.count for part in parts),
            total=min(part.step.total for part in parts),
            source=first.step.source,
            mean_ns=_mean([part.step.mean_ns for part in parts]) if all(part.step.mean_ns for part in parts) else 0,
            sampled=max(part.step.sampled for part in parts),
            recorded_ns=_mean([part.step.recorded_ns for part in parts]),
            own_first_ns=_most([part.step.own_first_ns for part in parts]),
            long_sampled_ns=slowest.step.long_sampled_ns,
            excesses=slowest.step.excesses,
            wait_blocks=slowest.step.wait_blocks,
            queued_ns=_known_mean([part.step.queued_ns for part in parts]),
        ),
        told_ns=_mean([part.told_ns for part in parts]),
        phases=_sums([part.phases for part in parts]),
        bounds=_sums([part.bounds for part in parts]),
        cells=_cells(parts),
        modules=_modules(parts),
        operators=_named([part.operators for part in parts]),
        kernels=_named([part.kernels for part in parts]),
        counts=_counts(parts),
        waits=_waits(parts),
        slow_transform=slow[0].slow_transform if slow else "",
        memory=Memory(
            *(_most([getattr(part.memory, name) for part in parts]) for name in ("host", "device", "allocated"))
        ),
        advice=slowest.advice,
        completeness=Completeness(
            expected=max(each.expected for each in whole),
            present=tuple(sorted(rank for each in whole for rank in each.present)),
            dropped=sum(each.dropped for each in whole),
            damaged=sum(each.damaged for each in whole),
            ended=tuple(end for each in whole for end in each.ended),
        ),
        outside=outside_steps.mean([part.outside for part in parts]),
        own_work=rank_work.of_ranks(parts),
        average=_average(parts),
        interrupted=sum(part.interrupted for part in parts) / len(parts),
        fingerprint=_fingerprint([part.fingerprint for part in parts]),
        ended_ns=max(part.ended_ns for part in parts),
    )


def averaged(run: Digest) -> Digest:
    """Return a digest whose step is the mean step of a run, with its parts.

    Args:
        run: the digest of the run; its mean step is known.
    """
    step = replace(run.step, median_ns=run.step.mean_ns, queued_ns=None)
    parts = {} if run.average is None else {item.name: getattr(run.average, item.name) for item in fields(Average)}
    return replace(run, step=step, average=None, **parts)


def _average(parts: Sequence[Digest]) -> Average | None:
    if all(part.average is None for part in parts):
        return None
    whole = merge([averaged(part) for part in parts])
    return Average(**{item.name: getattr(whole, item.name) for item in fields(Average)})


def _mean(values: Sequence[float]) -> int:
    return round(sum(values) / len(values))


def _known_mean(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return _mean(known) if len(known) == len(values) else None


def _most(values: Sequence[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _sums(parts: Sequence[dict[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for part in parts for name in part)
    means = {name: _mean([part.get(name, 0) for part in parts]) for name in names}
    return dict(sorted(means.items(), key=lambda item: (-item[1], item[0])))


def _cells(parts: Sequence[Digest]) -> tuple[Cell, ...]:
    sums: dict[tuple[str, str, str, str, str, str], int] = {}
    for part in parts:
        for cell in part.cells:
            key = (cell.part, cell.phase, cell.module, cell.stage, cell.what, cell.caller)
            sums[key] = sums.get(key, 0) + cell.ns
    found, before, run = [], 0, 0
    for key, ns in sorted(sums.items(), key=lambda item: (-item[1], item[0])):
        run += ns
        whole = round(run / len(parts))  # rounded in this way, the cells add up to the rounded mean
        found.append(Cell(*key, ns=whole - before))
        before = whole
    return tuple(found)


def _modules(parts: Sequence[Digest]) -> tuple[Module, ...]:
    by_path: dict[str, list[Module]] = {}
    for part in parts:
        for module in part.modules:
            by_path.setdefault(module.path, []).append(module)
    times = ("forward_ns", "backward_ns", "optimizer_ns", "total_ns", "self_ns")
    found = [
        replace(same[0], **{name: round(sum(getattr(module, name) for module in same) / len(parts)) for name in times})
        for same in by_path.values()
    ]
    return tuple(sorted(found, key=lambda module: (-module.total_ns, module.path)))


def _named(parts: Sequence[tuple[Named, ...]]) -> tuple[Named, ...]:
    sums: dict[tuple[str, str], tuple[float, int]] = {}
    for part in parts:
        for item in part:
            count, ns = sums.get((item.name, item.kind), (0.0, 0))
            sums[item.name, item.kind] = count + item.count, ns + item.ns
    found = [
        Named(*key, count=round(count / len(parts), 3), ns=round(ns / len(parts))) for key, (count, ns) in sums.items()
    ]
    return tuple(sorted(found, key=lambda item: (-item.ns, item.name, item.kind)))


def _fingerprint(known: Sequence[Fingerprint]) -> Fingerprint:
    """Return the fingerprint of a launch: it names each processor, device and version that a rank has."""
    texts = ("cpu", "device", "python", "framework", "profiler")
    differing = {name: ", ".join(sorted({getattr(each, name) for each in known})) for name in texts}
    return replace(known[0], **differing, cores=min(each.cores for each in known))  # type: ignore[arg-type]


def _counts(parts: Sequence[Digest]) -> dict[str, Count]:
    found = {}
    for name in dict.fromkeys(name for part in parts for name in part.counts):
        known = [part.counts[name] for part in parts if name in part.counts]
        found[name] = Count(
            round(sum(count.value for count in known) / len(known), 3),
            round(sum(count.least for count in known) / len(known), 3),
            round(sum(count.most for count in known) / len(known), 3),
            known[0].per,
        )
    return found


def _waits(parts: Sequence[Digest]) -> tuple[DataWait, ...]:
    sums: dict[str, tuple[int, int]] = {}
    for part in parts:
        for wait in part.waits:
            count, ns = sums.get(wait.operation, (0, 0))
            sums[wait.operation] = count + wait.count, ns + wait.ns
    return tuple(DataWait(name, count, ns) for name, (count, ns) in sorted(sums.items(), key=lambda item: -item[1][1]))
