"""A verdict of the gate as lines for a terminal or a log, and as Markdown for a page."""

from typing import Any

_MARKS = {"pass": "ok", "regression": "WORSE", "inconclusive": "unsure", "advisory": "-"}
#: largest number of parts of a step that are shown with their change
_MOST = 10


def lines(document: dict[str, Any]) -> list[str]:
    """Return a verdict as lines of plain text.

    Args:
        document: the verdict, as `document.of` returns it.
    """
    text = [f"{document['verdict'].upper()}: {document['headline']}"]
    text += [f"  {reason}" for reason in document["reasons"][1:]]
    rows = [("metric", "base", "new", "change", "interval", "verdict", ""), *_rows(document)]
    if len(rows) > 1:
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
        text.append("")
        for row in rows:
            cells = [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:-2], widths[1:-1], strict=True)),
            ]
            text.append(f"  {'  '.join(cells)}  {row[-2].ljust(widths[-1])}  {row[-1]}".rstrip())
    text += _because(document)
    if document["notes"]:
        text += ["", *document["notes"]]
    return text


def markdown(document: dict[str, Any]) -> str:
    """Return a verdict as Markdown.

    Args:
        document: the verdict, as `document.of` returns it.
    """
    text = [f"### ms-profiler gate: {document['verdict']}", "", document["headline"], ""]
    text += [f"- {reason}" for reason in document["reasons"]]
    rows = list(_rows(document))
    if rows:
        text += [
            "| metric | base | new | change | interval | verdict | |",
            "| --- | --: | --: | --: | --: | --- | --- |",
        ]
        text += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    because = _because(document)
    if because:
        text += ["", "```", *(line for line in because if line), "```"]
    text += ["", *(f"- {note}" for note in document["notes"])]
    return "\n".join(text).rstrip() + "\n"


def _rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    found = []
    for one in document["metrics"]:
        if one["verdict"] == "pass" and one["kind"] == "count" and not one["base"] and not one["new"]:
            continue
        change = "new" if one["ratio"] is None else f"{one['ratio'] - 1:+.1%}"
        interval = "" if one["low"] is None else f"{one['low'] - 1:+.1%} to {one['high'] - 1:+.1%}"
        unit = f" {one['unit']}" if one["unit"] else ""
        values = [f"{one[side]:,.6g}{unit}" for side in ("base", "new")]
        found.append((one["name"], *values, change, interval, _MARKS[one["verdict"]], one["why"]))
    return found


def _because(document: dict[str, Any]) -> list[str]:
    why = document["why"]
    if not why:
        return []
    return [*_contributors(document, why), *_more_of(document, why)]


def _contributors(document: dict[str, Any], why: dict[str, Any]) -> list[str]:
    shown = [each for each in why["contributors"] if each["told"]][:_MOST]
    if not shown:
        return []
    change = f"{why['change_ms']:+.3f} ms a step{' on average' * why['mean']}"
    step = next((each["verdict"] for each in document["metrics"] if each["kind"] == "time"), "")
    by_chance = document["verdict"] == "inconclusive" or (step == "advisory" and not why["mean"])
    which = " in sampled steps" * why["sampled"]
    title = f"Differences{which}, which may be chance" if by_chance else f"Why{',' * bool(which)}{which}"
    text = ["", f"{title}: {change}"]
    for each in shown:
        advice = f"; {each['advice']}" if each["advice"] else ""
        known = each["before_ms"] is not None
        values = f" ({each['before_ms']:.3f} -> {each['after_ms']:.3f} ms)" if known else ""
        text.append(f"  {each['change_ms']:+.3f} ms  {each['what']}{values}{advice}")
    rest = sum(each["change_ms"] for each in why["contributors"]) - sum(each["change_ms"] for each in shown)
    if rest:
        text.append(f"  {rest:+.3f} ms  in smaller parts")
    return [*text, f"  {why['unexplained_ms']:+.3f} ms  unexplained"]


def _more_of(document: dict[str, Any], why: dict[str, Any]) -> list[str]:
    """Return lines about the operators that run more often than before, if a count is a regression; else no lines."""
    grown = any(one["kind"] == "count" and one["verdict"] == "regression" for one in document["metrics"])
    if not grown or not why["more_of"]:
        return []
    shown = [f"  {each['name']}: {each['before']:g} -> {each['after']:g}" for each in why["more_of"][:_MOST]]
    left = len(why["more_of"]) - len(shown)
    return ["", "Runs more often, times a step:", *shown, *([f"  and {left} more"] if left else [])]
