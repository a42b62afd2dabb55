"""Print the finding over all ranks of a job on a terminal. `cluster.job_summary` computes it."""

from typing import Any, Final

from rich.console import Console
from rich.text import Text

from ms_profiler.analysis.report import widths
from ms_profiler.analysis.report.durations import milliseconds

#: number of ranks that are listed: late ranks first, then the ranks that wait longest
_RANKS: Final = 16
#: number of late ranks, and number of slow links, for which a sentence is printed
_LATE: Final = 5
_ROLES: Final = {"late": "late", "waits": "waits for others", "even": "-", "alone": "exchanges nothing"}


def show(summary: dict[str, Any], out: Console, ranks: bool = True) -> None:
    """Print the finding over all ranks, the causes for which ranks were late, and a table of the ranks.

    Args:
        summary: the summary of the job, from `job_summary.summary`.
        out: the console to print to.
        ranks: whether to list the ranks.
    """
    with out.capture() as captured:
        widths.lines(Text(summary["verdict"], style="bold"), out)
        for late in summary["late"][:_LATE]:
            widths.lines(Text(_reason(late)), out)
        if len(summary["late"]) > _LATE:
            widths.lines(Text(f"{len(summary['late']) - _LATE} more late ranks: `--json` has all."), out)
        for link in summary["slow_links"][:_LATE]:
            ends = f"from rank {link['source']} to rank {link['target']}"
            speeds = f"{link['speed']:.2f} GB/s; the median one has {link['usual']:.2f} GB/s"
            widths.lines(Text(f"The {link['transport']} link {ends} is slow: {speeds}."), out)
        for line in (*_pipeline(summary["pipeline"]), *_experts(summary["experts"]), *_goodput(summary["goodput"])):
            widths.lines(Text(line), out)
        if ranks:
            out.print(_table(summary, out.width))
        for remark in _remarks(summary, ranks):
            widths.lines(Text(remark, style="dim"), out)
    out.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _reason(late: dict[str, Any]) -> str:
    parts = [f"{part} {milliseconds(value)}" for part, value in late["parts_ms"].items() if value > 0]
    sentence = f"Rank {late['rank']}: {late['why']}"
    examined = late["parts_estimated_from_steps"]
    source = "" if examined is None else f", estimated from {examined} steps"
    sentence += f" (beyond the other ranks{source}: {', '.join(parts[:3])})" if parts else ""
    saved = late["saved_at_median_ms"]
    sentence += f". If it alone were like the others, the steps would take {milliseconds(saved)} less" * (saved > 0)
    chain = late["delays"]
    if chain is None:
        return f"{sentence}."
    place = f"{chain['operation']} {chain['number']}, in step {chain['step']}"
    others = f"{chain['waiting_ranks']} ranks wait" if chain["waiting_ranks"] != 1 else "1 rank waits"
    return f"{sentence}. At most it delays {place}: {others} {milliseconds(chain['late_ms'])} there."


def _pipeline(found: dict[str, Any] | None) -> list[str]:
    """Return sentences about the pipeline stages that hold up the others, and about the bubbles (waits) of stages."""
    if found is None:
        return []
    slow = {each["stage"] for each in found["slow_stages"]}
    shares = [
        f"stage {stage['stage']} {stage['share']:.0%}"
        for stage in found["stages"]
        if not slow or stage["stage"] in slow
    ]
    rest = [stage["share"] for stage in found["stages"] if stage["stage"] not in slow]
    bubbles = f"Bubbles of the pipeline ({', '.join(found['known_by'])}), of a step: {', '.join(shares[:_RANKS])}"
    if not slow:
        return [f"{bubbles}{' and more' * (len(shares) > _RANKS)}."]
    listed = " and ".join(map(str, sorted(slow)[:_LATE]))
    bounds = dict.fromkeys((f"{min(rest, default=0):.0%}", f"{max(rest, default=0):.0%}"))
    others = f"; the others {' to '.join(bounds)}" if rest else ""
    holds = f"Stage{'s' * (len(slow) > 1)} {listed} of the pipeline hold{'s' * (len(slow) == 1)} up the others."
    return [f"{holds} {bubbles}{others}."]


def _experts(found: list[dict[str, Any]]) -> list[str]:
    """Return sentences about the ranks with the busiest experts (of a mixture-of-experts model)."""
    busy = [each for each in found if each["busy_ranks"]]
    sentences = [
        f"The experts of rank {' and '.join(map(str, each['busy_ranks']))} hold up the {len(each['ranks'])} ranks that "
        f"share them ({each['known_by']}): up to {each['most_time_to_mean']:.2f} times the mean time and "
        f"{each['most_bytes_to_mean']:.2f} times the mean bytes; that costs {milliseconds(each['lost_ms'])}."
        for each in sorted(busy, key=lambda each: -each["lost_ms"])[:_LATE]
    ]
    if busy or not found:
        return sentences
    worst = max(found, key=lambda each: each["most_bytes_to_mean"])
    return [
        f"Experts ({worst['known_by']}): a rank has at most {worst['most_bytes_to_mean']:.2f} times the mean bytes of "
        f"its group, and no rank's experts hold up the others."
    ]


def _goodput(found: dict[str, Any] | None) -> list[str]:
    """Return sentences about a job that was started several times: in which share of the time it trained (goodput)."""
    if found is None or len(found["starts"]) < 2:
        return []
    parts = [f"{part} {milliseconds(value)}" for part, value in _by_size(found["parts_ms"]) if value > 0]
    sentences = [
        f"Goodput {found['share']:.0%}: of {milliseconds(found['total_ms'])} in {len(found['starts'])} starts, a rank "
        f"trained for {milliseconds(found['useful_ms'])}; the rest is {', '.join(parts)}."
    ]
    for start in found["starts"][:-1]:
        lost = start["lost_steps"]
        if lost is not None:
            sentences.append(
                f"Start {start['start']} made {start['steps']} steps, of which the next start lacked {lost}: "
                + ("no checkpoint was written." if start["saved_to_step"] is None else "its checkpoint was older.")
                if lost
                else f"Start {start['start']} made {start['steps']} steps, all of which its checkpoint holds."
            )
    return [*sentences, *found["remarks"]]


def _by_size(parts: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(parts.items(), key=lambda item: -item[1])


def _table(summary: dict[str, Any], width: int) -> Any:
    order = {"late": 0, "waits": 1, "even": 2, "alone": 3}
    rows = sorted(summary["ranks"], key=lambda row: (order[row["role"]], -(row["wait_ms"] or 0), row["rank"]))
    made = widths.table("rank", "role", "waits for others", "clock", "finding of its own summary")
    made.columns[1].justify = made.columns[-1].justify = "left"
    made.columns[-1].no_wrap = False
    for row in rows[:_RANKS]:
        clock = row["clock"]
        known = (
            "-" if clock["uncertainty_ms"] is None else f"{clock['offset_ms']:+.3f} ± {clock['uncertainty_ms']:.3f} ms"
        )
        wait = milliseconds(row["wait_ms"])
        made.add_row(str(row["rank"]), _ROLES[row["role"]], wait, known, row["verdict"])
    return widths.fitted(made, width)


def _untold(summary: dict[str, Any]) -> list[str]:
    """Return a sentence that says why the table lacks the wait of ranks that exchange something; empty if none."""
    ranks = [str(row["rank"]) for row in summary["ranks"] if row["wait_ms"] is None and row["role"] != "alone"]
    if not ranks:
        return []
    named = f"rank{'s' * (len(ranks) > 1)} {', '.join(ranks[:_RANKS])}{' and more' * (len(ranks) > _RANKS)}"
    return [f"The wait of {named} is unknown: calls that send or receive a message end before the message."]


def _remarks(summary: dict[str, Any], ranks: bool) -> list[str]:
    sentences = [*_untold(summary) * ranks, *summary["remarks"]]
    missing = summary["missing_ranks"]
    if missing:
        listed = ", ".join(map(str, missing[:_RANKS])) + " and more" * (len(missing) > _RANKS)
        sentences.append(f"No result of {len(missing)} of {summary['world_size']} ranks: {listed}.")
    rest = len(summary["ranks"]) - _RANKS
    if rest > 0:
        sentences.append(f"{rest} more ranks: `--json` has all.")
    return sentences
