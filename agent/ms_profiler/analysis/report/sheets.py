"""A comparison of two runs as lines and tables of text, for the terminal and for Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ms_profiler.analysis.comparison import evidence
from ms_profiler.analysis.comparison.causes import MACHINE, REMARKABLE, Causes, Contributor, toward
from ms_profiler.analysis.comparison.comparing import Comparison, NamedRow, Row
from ms_profiler.analysis.comparison.outside_steps import MUCH
from ms_profiler.analysis.comparison.recurrence import apart, single
from ms_profiler.analysis.comparison.sampled import Sampled, in_all_steps
from ms_profiler.analysis.comparison.side import Side
from ms_profiler.analysis.metrics.advice.base import length, size
from ms_profiler.analysis.metrics.common_factor import worded
from ms_profiler.analysis.report.bounded import PARTS

#: number of rows of a table by default
ROWS: Final = 8
#: smallest difference, as a share of the step, for which a row is shown
SHOWN: Final = 0.001
_NONE: Final = "-"
#: smallest ratio that is shown as a factor instead of percents
_TIMES: Final = 10


@dataclass(frozen=True)
class Sheet:
    """A table of text.

    Attributes:
        title: the title above the table.
        columns: the titles of the columns; the first column has the names.
        rows: the rows; each row has a cell for each column.
        below: lines under the table.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    below: tuple[str, ...] = ()


def verdict(found: Comparison) -> str:
    """Return the answer of a comparison in one or two sentences: whether and why the steps of two runs differ.

    Args:
        found: the comparison, from `comparing.compare`.
    """
    causes = found.causes
    change, before = causes.change_ns, max(causes.before_ns, 1)
    much = f"{evidence.signed(change)}, {change / before * 100:+.1f} %"
    counts = "; ".join(
        f"{evidence.WORDS[row.name]} {_amount(row.before, row.unit)} -> {_amount(row.after, row.unit)}"
        for row in found.counts
        if row.difference and row.before is not None and row.after is not None
    )
    if not causes.remarkable:
        usual = causes.spread * 100
        if Sampled(causes.sampled).mixed and abs(change) > max(causes.spread, REMARKABLE) * before:
            sentence = f"Nothing is sure: steps differ by {much}, which may be the cost of recording."
        elif abs(sum(each.share for each in found.outside)) >= MUCH:
            usual_steps = f"Usual steps differ by {much}, and vary by {usual:.1f} % without a change."
            sentence = f"{_outside(found)} {usual_steps}"
        else:
            differ = f"steps differ by {much}, and vary by {usual:.1f} % without a change."
            if counts:  # the work differs for certain, even where the time does not tell
                return f"The work changed: {counts}. Step times tell nothing: {differ}"
            sentence = f"Nothing remarkable: {differ}"
    else:
        sentence = (
            f"Steps take {length(abs(change))} {'longer' if change >= 0 else 'less'} ({change / before * 100:+.1f} %)"
        )
        if causes.mean:
            sentence = f"On average, steps take {sentence.removeprefix('Steps take ')}"
        elif abs(change) <= max(causes.spread, REMARKABLE) * before:
            usual = max(causes.spread, REMARKABLE) * 100
            sentence = f"Steps differ by {much}, as equal runs may ({usual:.1f} %), but spend the time differently"
        sentence += _because(causes)
        if causes.mean:
            without = found.before.left_out + found.after.left_out
            sentence += f" The mean leaves out {single(without)}." if without else ""
            sentence += f" The median step differs by {_medians(found)}."
    return f"{sentence} Counts that changed: {counts}." if counts else sentence


def _outside(found: Comparison) -> str:
    """Return a sentence about the times outside of the usual steps that clearly changed."""
    changes = sorted(found.outside, key=lambda each: -abs(each.share))
    if found.before.total != found.after.total:
        parts = [f"{each.part} {length(each.before.ns)} -> {length(each.after.ns)}" for each in changes]
        steps = f"in a run of {found.before.total} -> {found.after.total} steps"
        return f"Outside of the usual steps, these times changed {steps}: {', '.join(parts)}."
    more = [each.after.ns - each.before.ns for each in changes]
    parts = [f"{each.part} ({evidence.signed(ns)})" for each, ns in zip(changes, more, strict=True)]
    word = "longer" if sum(more) >= 0 else "less"
    return f"Outside of the usual steps, these parts of a run take {length(abs(sum(more)))} {word}: {', '.join(parts)}."


def _because(causes: Causes) -> str:
    """Return the end of the first sentence: the cause of the largest part, and of the largest part that the job has."""
    change = causes.change_ns
    told = sorted(causes.told, key=lambda each: -toward(each, change))
    named = [f"{each.name} ({evidence.signed(each.change_ns)})" for each in told]
    if not told:
        sampled = causes.sampled != Sampled.NONE.value and causes.change_ns
        return "; the sampled steps do not show why." if sampled else "."
    everywhere = causes.sampled == Sampled.NONE.value or in_all_steps(told[0].kind, causes.mean)
    text = f": {'' if everywhere else 'in sampled steps, '}{named[0]}"
    own = next((at for at, each in enumerate(told) if each.kind not in MACHINE and toward(each, change) > 0), 0)
    return f"{text}; the largest part of the job itself is {named[own]}." if own else f"{text}."


def _medians(found: Comparison) -> str:
    before, after = found.before.step_ns, found.after.step_ns
    return f"{evidence.signed(after - before)}, {(after / max(before, 1) - 1) * 100:+.1f} %"


def lines(found: Comparison) -> Iterator[str]:
    """Yield lines about the two compared runs, their machines and workloads, and the limits of the comparison."""
    for word, side in (("before", found.before), ("after", found.after)):
        runs = f"{side.runs} runs, {length(side.least_ns)} to {length(side.most_ns)}" if side.runs > 1 else ""
        ranks = f"{len(side.ranks)} of {side.expected} ranks" if side.expected > 1 else ""
        without = f" without {single(side.left_out)}" if side.left_out else ""
        differs = apart(side.step_ns, side.mean_ns or side.step_ns)
        mean = f", {length(side.mean_ns)} on average{without}" if differs else ""
        steps = f"{'at least ' * (side.runs > 1)}{side.steps} steady steps{' each' * (side.runs > 1)}"
        if side.sampled:
            steps += f" that were not sampled, {side.sampled} sampled"
        extent = ", ".join(each for each in (runs, steps, ranks) if each)
        yield f"{word}: {side.source}: {length(side.step_ns)} a step{mean} ({extent})"
    for each in found.differences:
        yield f"{each.name}: {each.before} -> {each.after}"
    yield from found.notes


def sheets(found: Comparison, top: int | None = None) -> Iterator[Sheet]:
    """Yield the tables in which two runs differ. The first table has the causes of the difference.

    Args:
        found: the comparison, from `comparing.compare`.
        top: number of rows of each table; `ROWS` by default.
    """
    most = ROWS if top is None else top
    if found.causes.remarkable:
        yield _why(found)
    yield _step(found)
    yield from _of("What bounds the step", "a moment of a step", found.bounds, most, PARTS)
    yield from _of("Phases", "phase", found.phases, most, {})
    yield from _modules(found, most)
    yield from _named("Operators", "operator (own time)", found.operators, found, most)
    yield from _named("Kernels", "kernel", found.kernels, found, most)
    least = SHOWN * found.causes.before_ns
    callers = [row for row in found.callers if abs(row.difference) >= least]
    yield from _of("Kernels by operator", "operator that launched them", callers, most, {})
    counts = [row for row in found.counts if row.before or row.after]
    yield from _of("Counts", "of a step, or of the run", counts, len(counts), evidence.WORDS)
    yield from _of("Memory", "most held", found.memory, most, {})


def _why(found: Comparison) -> Sheet:
    # rows without a change are shown, too, because the times of all rows add up to the step
    shown = [each for each in found.causes.contributors if each.change_ns or each.before_ns or each.after_ns]
    rows = [_contributor(each) for each in shown]
    change = found.causes.change_ns
    both = (length(found.causes.before_ns), length(found.causes.after_ns))
    rows.append(("all of it", *both, evidence.signed(change), "100 %"))
    below = []
    for each in shown:
        renamed = f"it was {each.was}; " if each.was else ""
        if each.told and (each.evidence or renamed):
            below.append(f"{each.name}: {renamed}{each.evidence}".removesuffix("; "))
    if found.causes.factor != 1:
        factor = worded(found.causes.factor, found.causes.spread)
        beyond = f"beyond the common factor {factor} of all computing"
        below.append(f"The other changes are those {beyond}, so they are not the difference of before and after.")
    return Sheet("Why", ("contributor", "before", "after", "change", "share"), tuple(rows), tuple(below))


def _contributor(each: Contributor) -> tuple[str, ...]:
    times = (_NONE if ns is None else _signless(ns) for ns in (each.before_ns, each.after_ns))
    return each.name, *times, evidence.signed(each.change_ns), f"{each.share * 100:.0f} %"


def _signless(ns: int) -> str:
    return f"-{length(-ns)}" if ns < 0 else length(ns)


def _step(found: Comparison) -> Sheet:
    before, after = found.before, found.after
    rows = [Row("median step", before.step_ns, after.step_ns, after.step_ns - before.step_ns, "ns")]
    below = []
    if before.mean_ns and after.mean_ns:
        rows.append(Row("mean step", before.mean_ns, after.mean_ns, after.mean_ns - before.mean_ns, "ns"))
        if before.left_out or after.left_out:
            counts = [f"{side.left_out} {word}{_beyond(side)}" for side, word in ((before, "before"), (after, "after"))]
            below.append(f"the mean step leaves out single long steps: {'; '.join(counts)}")
    if found.causes.mean:
        below.append(f"longer than twice the median step: {before.longer} steps before, {after.longer} after")
        below.append("The times in all tables are those of the mean step, because work in some of the steps changed.")
    if before.first_ns is not None and after.first_ns is not None:
        first = (before.first_ns, after.first_ns)
        rows.append(Row("until the first step has ended", *first, first[1] - first[0], "ns"))
    if before.own_first_ns is not None and after.own_first_ns is not None:
        first = (before.own_first_ns, after.own_first_ns)
        rows.append(Row("first step", *first, first[1] - first[0], "ns"))
    columns = ("time", "before", "after", "difference", "")
    return Sheet("Time", columns, tuple(_row(row, {}) for row in rows), tuple(below))


def _beyond(side: Side) -> str:
    return f", {length(side.left_out_ns)} beyond the median step" if side.left_out else ""


def _of(title: str, first: str, rows: Sequence[Row], most: int, words: Mapping[str, str | None]) -> Iterator[Sheet]:
    if rows:
        shown = tuple(_row(row, words) for row in rows[:most])
        yield Sheet(title, (first, "before", "after", "difference", ""), shown, _left(len(rows), most))


def _row(row: Row, words: Mapping[str, str | None]) -> tuple[str, ...]:
    name = words.get(row.name) or row.name
    both = (_amount(row.before, row.unit), _amount(row.after, row.unit))
    return name, *both, _difference(row), _ratio(row.before, row.after)


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return _NONE
    return {"ns": length, "bytes": size}.get(unit, "{:g}".format)(value)


def _difference(row: Row) -> str:
    if row.unit == "ns":
        return evidence.signed(row.difference)
    if row.unit == "bytes":
        return f"{'-' if row.difference < 0 else '+'}{size(abs(row.difference))}"
    return f"{row.difference:+g}"


def _ratio(before: float | None, after: float | None) -> str:
    if before is None or not before:
        return "new" if after else ""
    if after is None:
        return "gone"
    return f"x{after / before:,.0f}" if after / before >= _TIMES else f"{(after / before - 1) * 100:+.1f} %"


def _modules(found: Comparison, most: int) -> Iterator[Sheet]:
    least = SHOWN * found.causes.before_ns
    rows = [row for row in found.modules if abs(row.difference_ns) >= least]
    if not rows:
        return
    shown = []
    for row in rows[:most]:
        was = f" (was {row.was})" if row.was not in (None, row.name) else ""
        both = (_amount(row.before_ns, "ns"), _amount(row.after_ns, "ns"))
        passes = (evidence.signed(row.forward_ns), evidence.signed(row.backward_ns))
        ratio = _ratio(row.before_ns, row.after_ns)
        shown.append((row.name + was, *both, evidence.signed(row.difference_ns), ratio, *passes))
    columns = ("module", "before", "after", "difference", "", "forward", "backward")
    yield Sheet("Modules", columns, tuple(shown), _left(len(rows), most))


def _named(title: str, first: str, rows: Sequence[NamedRow], found: Comparison, most: int) -> Iterator[Sheet]:
    least = SHOWN * found.causes.before_ns
    known = [row for row in rows if abs(row.difference_ns) >= least or row.before_count != row.after_count]
    if not known:
        return
    shown = []
    for row in known[:most]:
        same = row.before_count == row.after_count
        calls = f"{row.after_count:g}" if same else f"{row.before_count:g} -> {row.after_count:g}"
        both = (_amount(row.before_ns, "ns"), _amount(row.after_ns, "ns"))
        ratio = _ratio(row.before_ns, row.after_ns)
        shown.append((row.name, *both, evidence.signed(row.difference_ns), ratio, calls))
    columns = (first, "before", "after", "difference", "", "calls a step")
    yield Sheet(title, columns, tuple(shown), _left(len(known), most))


def _left(count: int, most: int) -> tuple[str, ...]:
    return (f"{count - most} more: --top {count}, or --format json",) if count > most else ()
