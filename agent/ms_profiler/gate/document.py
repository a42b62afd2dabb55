"""Turn a gate's verdict into a dictionary, from which all output formats are made; `gate.schema.json` describes it."""

from typing import Any, Final

from ms_profiler.analysis.comparison import causes
from ms_profiler.analysis.comparison.sampled import in_all_steps
from ms_profiler.gate.figures import Kind
from ms_profiler.gate.significance import ALPHA
from ms_profiler.gate.verdicts import Decision, Judged, Verdict

VERSION: Final = 1


def of(decision: Decision, exit_code: int, why: dict[str, Any] | None) -> dict[str, Any]:
    """Return the verdict as a dictionary for JSON.

    Args:
        decision: the verdict.
        exit_code: the exit code of the command.
        why: the parts of a step that changed, as `sides.Gated.why` returns them; None if unknown.
    """
    from ms_profiler import __version__

    return {
        "version": VERSION,
        "product": {"name": "ms-profiler", "version": __version__},
        "verdict": decision.verdict.value,
        "exit_code": exit_code,
        "headline": decision.headline + _first(decision, why),
        "reasons": list(decision.reasons),
        "notes": list(decision.notes),
        "runs": {"base": decision.base_runs, "new": decision.new_runs},
        "rules": {
            "threshold": decision.rules.threshold,
            "tripwire": decision.rules.tripwire,
            "alpha": ALPHA,
        },
        "spread": _rounded(decision.spread),
        "metrics": [_metric(one) for one in decision.judged],
        "why": why,
    }


def _first(decision: Decision, why: dict[str, Any] | None) -> str:
    """Return a sentence about the part of a step that contributes most to a regression; empty if none stands out."""
    if decision.verdict is not Verdict.REGRESSION or why is None:
        return ""
    times = (Kind.TIME, Kind.SPEED, Kind.MEAN)
    slower = any(one.metric.kind in times and one.verdict is Verdict.REGRESSION for one in decision.judged)
    told = [each for each in why["contributors"] if each["told"] and each["change_ms"] > 0]
    # if only a count grew, a slower machine is no explanation
    told = [each for each in told if slower or each["kind"] != causes.ALIKE]
    if not told:
        return ""
    whole = why["change_ms"]
    first = max(told, key=_change) if whole <= 0 else told[0]
    of_sampled = why["sampled"] and not in_all_steps(first["kind"], why["mean"])
    of = (" on average" if why["mean"] else "") + (", in sampled steps" if of_sampled else "")
    if whole <= 0:
        text = f" The largest increase{of} is {first['change_ms']:+.3g} ms: {first['what']}"
    else:
        part = first["change_ms"]
        # a part that is larger than the whole by rounding alone is the whole
        share = f" of {whole:+.3g} ms" if part <= whole * 1.005 else f" (all other parts {whole - part:+.3g} ms)"
        text = f" {part:+.3g} ms{share}{of}: {first['what']}"
    own = max((each for each in told if each["kind"] not in causes.MACHINE), key=_change, default=first)
    if own is not first:
        text += f"; the largest part of the job itself, {own['change_ms']:+.3g} ms: {own['what']}"
    return f"{text}."


def _change(contributor: dict[str, Any]) -> float:
    return float(contributor["change_ms"])


def _metric(one: Judged) -> dict[str, Any]:
    return {
        "name": one.metric.name,
        "kind": one.metric.kind.name.lower(),
        "unit": one.metric.unit,
        "base": _rounded(one.base),
        "new": _rounded(one.new),
        "ratio": _rounded(one.ratio),
        "low": _rounded(one.low),
        "high": _rounded(one.high),
        "p": _rounded(one.p),
        "verdict": one.verdict.value,
        "why": one.why,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
