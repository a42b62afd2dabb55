"""Describe the evidence for a contributor (a part of the change of the step time) in words and numbers."""

from collections.abc import Sequence
from typing import Final

from ms_profiler.analysis.comparison import counting
from ms_profiler.analysis.comparison.digest import Cell, Digest
from ms_profiler.analysis.metrics import bounds, critical_path
from ms_profiler.analysis.metrics.advice.base import length, size
from ms_profiler.store.names import CALLBACK

#: part of a step -> its title
TITLES: Final = {
    bounds.DATA: "waiting for data",
    bounds.COMPILE: "compiling",
    bounds.CHECKPOINT: "writing or reading checkpoints",
    bounds.GARBAGE: "Python's garbage collection",
    bounds.RUNNABLE: "waiting for a processor",
    bounds.COMMUNICATION: "exchanging data with other ranks",
    bounds.SYNC: "reading values, or waiting for the device",
    # if a device was recorded, it is idle in the next parts
    bounds.LAUNCH: "launching: the device waits for the host",
    bounds.HOST: "other code of the host: the device waits",
    bounds.BLOCKED: "the host is asleep or blocked: the device waits",
    bounds.UNKNOWN: "the device waits for the host",
    critical_path.COPY: "copies on the device",
    critical_path.GAP: "gaps between kernels on the device",
}
#: part of a step -> the causes in the advice that concern this part
_HINTS: Final = {
    bounds.DATA: ("input-bound", "worker-starts"),
    critical_path.COPY: ("copy-bound",),
    bounds.COMPILE: ("recompiling",),
    bounds.CHECKPOINT: ("checkpointing",),
    bounds.GARBAGE: ("gc-pauses",),
    bounds.COMMUNICATION: ("communication-bound", "late-rank", "small-packets"),
    bounds.RUNNABLE: ("oversubscribed",),
    bounds.SYNC: ("sync-bound",),
}
#: part of a step -> the counts that concern it
_COUNTS: Final = {
    bounds.COMPILE: (counting.RECOMPILES, counting.COMPILED, counting.BREAKS),
    bounds.COMMUNICATION: (counting.COLLECTIVES, counting.EXCHANGED),
    bounds.SYNC: (counting.SYNCHRONISATIONS,),
    critical_path.COPY: (counting.COPIES, counting.COPIED),
}
WORDS: Final = {
    counting.OPERATORS: "operators",
    counting.KERNELS: "kernels",
    counting.COPIES: "copies",
    counting.COPIED: "bytes copied",
    counting.SYNCHRONISATIONS: "reads and waits of the host",
    counting.COLLECTIVES: "exchanges",
    counting.EXCHANGED: "bytes exchanged",
    counting.RECOMPILES: "recompilations",
    counting.GRAPHS: "compilations",
    counting.BREAKS: "graph breaks",
    counting.COMPILED: "steps that compiled",
}
#: part of a step -> its title as a part of the work of a module
_PARTS: Final = {
    bounds.BLOCKED: "asleep or blocked",
    bounds.LAUNCH: "launching",
    bounds.HOST: "other code of the host",
    bounds.UNKNOWN: "unknown",
}
#: operators and calls that copy a value from the device to the host
_READS: Final = ("aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "Tensor.asnumpy", "Tensor.item")
#: operators that copy tensors
_COPIES: Final = ("aten::copy_", "aten::clone", "aten::_to_copy", "aten::to", "TensorMove", "Copy")
#: number of characters of the longest name in a list; longer names are cut
LONGEST: Final = 48
#: a name is shown if its change is at least this share of the contributor's change
SOME: Final = 0.2
#: an operator's calls a step are a mean over the recorded steps. The work changed only if the change of the mean is a
#: whole number, or larger than this share of the mean: some steps, such as those of a checkpoint, have more calls
_OFTENER: Final = 0.1
#: a call near the end of a step may count in another step, or be lost. So the mean times the number of steps is wrong
#: by up to this number of calls
_STRAY: Final = 2
#: additional reads of values explain additional operators if there are at most this many additional operators per read
_EACH: Final = 12


def of_wait(kind: str, first: Digest, second: Digest, before: Sequence[Cell], after: Sequence[Cell]) -> str:
    """Return the evidence for a wait: the change of its count, and the advice of the run that waits longer.

    Args:
        kind: part of a step, as defined in `metrics.bounds`.
        first: the digest of the run before.
        second: the digest of the run after.
        before: the parts of the first run's step time (cells) that belong to the wait.
        after: the parts of the second run's step time (cells) that belong to the wait.
    """
    found = [counted(name, first, second) for name in _COUNTS.get(kind, ())]
    longer, word = (second, "after") if _ns(after) >= _ns(before) else (first, "before")
    if kind == bounds.DATA:
        found += [f"{word}: {longer.slow_transform}" if longer.slow_transform else _waits(first, second, longer)]
    if kind != bounds.DATA or not found[-1]:
        causes = _HINTS.get(kind, ())
        found += [f"{word}: {hint.evidence}" for hint in longer.advice if hint.cause in causes][:1]
    if kind in (bounds.LAUNCH, bounds.HOST, bounds.SYNC, bounds.COMPILE, bounds.GARBAGE, bounds.COMMUNICATION):
        found += changes(before, after, "what")[:1]
    return "; ".join(each for each in found if each)


def of_work(first: Digest, second: Digest, before: Sequence[Cell], after: Sequence[Cell]) -> str:
    """Return the evidence for work in or outside of a module: the passes and operators that changed, with counts.

    Args:
        first: the digest of the run before.
        second: the digest of the run after.
        before: the parts of the first run's step time (cells) that belong to the work.
        after: the parts of the second run's step time (cells) that belong to the work.
    """
    found = [*changes(before, after, "stage"), *_off(before, after)]
    names = changes(before, after, "what")[:2]
    if names:
        found.append(", ".join(names))
    ran = {cell.what for cell in (*before, *after)}
    counted_before, counted_after = ({item.name: item.count for item in run.operators} for run in (first, second))
    steps = min(run.step.sampled or run.step.count for run in (first, second))
    more = [
        (abs(counted_after.get(name, 0) - counted_before.get(name, 0)), name)
        for name in ran
        if _called(counted_before.get(name, 0), counted_after.get(name, 0), steps)
    ]
    for _, name in sorted(more, key=lambda each: (-each[0], each[1]))[:1]:
        found.append(f"{_short(name)} {counted_before.get(name, 0):g} -> {counted_after.get(name, 0):g} a step")
    return "; ".join(found)


def _called(before: float, after: float, steps: int) -> bool:
    """Return whether the number of an operator's calls in a step certainly changed.

    Args:
        before: the mean number of its calls in a step of the first run.
        after: the mean number of its calls in a step of the second run.
        steps: the smaller number of recorded steps of the two runs.
    """
    more, wrong = abs(after - before), _STRAY / max(steps, 2 * _STRAY)
    whole = round(more) >= 1 and abs(more - round(more)) <= wrong
    return whole or more > max(_OFTENER * max(before, after), wrong)


def title(kind: str, name: str, first: Digest, second: Digest, before: Sequence[Cell], after: Sequence[Cell]) -> str:
    """Return the title of a contributor that is work: its module, or a description if it is in no module.

    Args:
        kind: a kind of contributor, as in `causes`.
        name: path of a module, a phase, or a kernel.
        first: the digest of the run before.
        second: the digest of the run after.
        before: the parts of the first run's step time (cells) that belong to the contributor.
        after: the parts of the second run's step time (cells) that belong to the contributor.
    """
    cells = (*before, *after)
    if kind == "module":
        if all(cell.stage == "optimizer" for cell in cells):
            return f"optimizer {name}" if not before or not after or "." not in name else f"optimizer of {name}"
        return name
    if kind == "kernel":
        return name or "kernels without a name"
    place = {"other": "code of the script outside of modules", "device": "on the device"}.get(
        name, f"{name}, in no module"
    )
    callbacks = sorted({cell.what for cell in cells if cell.what.startswith(CALLBACK)})
    for callback in callbacks:
        if _mostly(before, after, [callback]):
            return callback
    reads, operators = (_more(each, first, second) for each in (counting.SYNCHRONISATIONS, counting.OPERATORS))
    if name == "other" and reads >= 1 and operators <= _EACH * reads:
        return f"reading values: {place}"
    if _mostly(before, after, _COPIES):
        return f"copies: {place}"
    return place


def counted(name: str, first: Digest, second: Digest) -> str:
    """Return the change of a count in words: "kernels 10 -> 12 a step"; empty if it did not change or is unknown.

    Args:
        name: the name of the count, as in `counting`.
        first: the digest of the run before.
        second: the digest of the run after.
    """
    before, after = first.counts.get(name), second.counts.get(name)
    if before is None or after is None or not before.changed(after):
        return ""
    shown = size if name in counting.BYTES else "{:g}".format
    per = " a step" if after.per == "step" else ""
    return f"{WORDS[name]} {shown(before.value)} -> {shown(after.value)}{per}"


def machine(first: Digest, second: Digest) -> str:
    """Return the differences of machine and versions in words. They may explain why everything changed alike."""
    names = {
        "cpu": "processor",
        "cores": "processors",
        "threads": "threads of an operator",
        "device": "device",
        "framework": "framework",
        "mode": "mode",
    }
    one, other = first.fingerprint, second.fingerprint
    found = [
        f"{word} {getattr(one, name) or 'unknown'} -> {getattr(other, name) or 'unknown'}"
        for name, word in names.items()
        if getattr(one, name) != getattr(other, name) and getattr(one, name) and getattr(other, name)
    ]
    if found:
        return "; ".join(found)
    return "another speed or load of the machine, another batch, precision or number of threads; not a single module"


def changes(before: Sequence[Cell], after: Sequence[Cell], field: str) -> list[str]:
    """Return the names with the largest changes, as "NAME +1.2 ms". Changes below `SOME` of the whole are left out.

    Args:
        before: the parts of the first run's step time (cells) that belong to the contributor.
        after: the parts of the second run's step time (cells) that belong to the contributor.
        field: the field of a cell that has the name: "what" or "stage".
    """
    more: dict[str, int] = {}
    for cells, sign in ((before, -1), (after, 1)):
        for cell in cells:
            name = str(getattr(cell, field))
            more[name] = more.get(name, 0) + sign * cell.ns
    whole = abs(sum(more.values()))
    large = [(ns, name) for name, ns in more.items() if name and abs(ns) >= max(SOME * whole, 1)]
    return [f"{_short(name)} {signed(ns)}" for ns, name in sorted(large, key=lambda each: (-abs(each[0]), each[1]))]


def _short(name: str) -> str:
    """Cut the middle out of a long name. The type of a kernel is at the left end, its variant at the right end."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[-(LONGEST // 2 - 1) :]}"


def signed(ns: float) -> str:
    """Return a difference of times as text with a sign and a unit."""
    return f"{'-' if ns < 0 else '+'}{length(abs(ns))}"


def _off(before: Sequence[Cell], after: Sequence[Cell]) -> list[str]:
    """Return the parts of a module's change that are not computing, such as waits, in words."""
    whole = abs(_ns(after) - _ns(before))
    found = []
    for part, word in _PARTS.items():
        more = sum(cell.ns for cell in after if cell.part == part) - sum(
            cell.ns for cell in before if cell.part == part
        )
        if abs(more) >= max(SOME * whole, 1):
            found.append(f"{word} {signed(more)}")
    return found


def _mostly(before: Sequence[Cell], after: Sequence[Cell], names: Sequence[str]) -> bool:
    more = sum(cell.ns for cell in after if cell.what in names) - sum(cell.ns for cell in before if cell.what in names)
    whole = _ns(after) - _ns(before)
    return 2 * more > whole > 0 or 2 * more < whole < 0


def _more(name: str, first: Digest, second: Digest) -> float:
    before, after = first.counts.get(name), second.counts.get(name)
    return 0.0 if before is None or after is None else after.value - before.value


def _ns(cells: Sequence[Cell]) -> int:
    return sum(cell.ns for cell in cells)


def _waits(first: Digest, second: Digest, longer: Digest) -> str:
    """Return text about the data operation with the longest wait; empty if no operation waited.

    The text has means over the whole runs, because these waits are not known step by step.
    """
    found = sorted(longer.waits, key=lambda wait: -wait.ns)
    # without workers, the training process itself fetches the batch while it waits for it
    inner = next((wait for wait in found if wait.operation == "fetch batch"), None)
    outer = next((wait for wait in found if wait is not inner), None)
    if outer is None or not outer.count:
        return ""
    each = [_each(run, outer.operation) for run in (first, second)]
    change = " -> ".join(each) if all(each) else f"{each[0] or each[1]} {'before' if each[0] else 'after'}"
    sentence = f"{outer.operation}: {change} each, as a mean over the whole run"
    if inner is not None and 2 * inner.ns >= outer.ns:
        sentence += ", nearly all of it fetching the batch in the training process (no workers)"
    return sentence


def _each(run: Digest, operation: str) -> str:
    """Return the mean length of a run's waits for an operation as text; empty if it has none."""
    return next((length(wait.ns / wait.count) for wait in run.waits if wait.operation == operation and wait.count), "")
