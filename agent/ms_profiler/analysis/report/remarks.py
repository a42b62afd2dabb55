"""The lines below the tables of a summary: the end of the run, missing data, the cost, and the files."""

from typing import Any, Final

from ms_profiler.analysis.metrics import wording
from ms_profiler.analysis.metrics.stretches import AWAY, BETWEEN, NETWORK, OTHER
from ms_profiler.analysis.report.durations import milliseconds
from ms_profiler.store import layout

#: forms of device records that name a kernel, but no type of operator
_BY_NAME: Final = ("cupti", "kineto")
#: number of processes whose memory is shown, and of functions that are named in a line
SHOWN: Final = 5
#: the mean step time is shown beside the median if mean / median or median / mean is at least this
_FAR: Final = 1.5
#: A part outside of the steps is named if it takes at least `_MUCH_TRAINING` of the training. From this share on,
#: advice speaks of checkpoints, compilations and garbage collections within the steps. Otherwise, the part is named if
#: it takes at least `_MUCH` of the run, and as long as the steps. These parts are not named: the steps themselves, and
#: what every run has.
_MUCH_TRAINING: Final = 0.1
_MUCH: Final = 0.2
_USUAL: Final = ("steps", "import", "set-up", "profiling", "not recorded")
#: a phase that did not end normally is named if it took at least this long, ms
_LONG_MS: Final = 1000.0
#: recomputation is named if it takes at least this share of the steps' time
_AGAIN: Final = 0.05
#: a phase is named if it takes more than this share of the time between steps
_MOST: Final = 0.5


def end(process: dict[str, Any]) -> str:
    """Return a line about how a process ended."""
    how = "still running" if process["state"] == "running" else process["state"]
    return f"{who(process)}: {how}, last record after {process['last_record_s']:.2f} s"


def listed(summary: dict[str, Any]) -> str:
    """Return what the table of operators lists: kernels by name, where a GPU was recorded."""
    return "Kernels by name" if (summary.get("device") or {}).get("form") in _BY_NAME else "Operators"


def outside(summary: dict[str, Any]) -> list[str]:
    """Return a line about the largest part outside of the steps, if it takes much of the training or of the run."""
    for process in summary.get("whole_run") or ():
        for key, of, least in (("training_share", "training", _MUCH_TRAINING), ("share", "run", _MUCH)):
            parts = {part["part"]: part.get(key, 0.0) for part in process["parts"]}
            steps = parts.get("steps", 0.0)
            name = max((part for part in parts if part not in _USUAL), key=parts.__getitem__, default="")
            if steps and name and parts[name] >= max(least, steps if of == "run" else 0.0):
                shares = f"{parts[name] * 100:.0f} % of the {of}; the steps {steps * 100:.0f} %"
                name += ", before this process began or after it ended," * (name == AWAY)
                whose = f" of {who(process)}" * (len(summary["whole_run"]) > 1)
                return [f"Outside of the steps{whose}: {name}{_within(process, name)} {shares}"]
    return []


def _within(process: dict[str, Any], name: str) -> str:
    """Return words about the work between calls of a network, or about the phase with most of the time between steps.

    Args:
        process: the parts of the run of a process.
        name: the part in question.
    """
    if name not in (NETWORK, BETWEEN):
        return ""
    times = next(part["contains_ms"] for part in process["parts"] if part["part"] == name)
    shares = {phase: took / max(sum(times.values()), 1e-6) for phase, took in times.items()}
    called = 1 - shares.pop(OTHER, 0.0)
    if name == NETWORK:
        return f" with the work between them ({called * 100:.0f} % in the calls)" if called < _MOST else ""
    return next((f", mostly {phase}," for phase, share in shares.items() if share > _MOST), "")


def halted(summary: dict[str, Any]) -> list[str]:
    """Return a line about a long phase after the last step, if this phase did not end normally."""
    found = summary.get("ending")
    if not found or found["ms"] < _LONG_MS or not (found["raised"] or found["unfinished"]):
        return []
    moment = "Before the end of a step" if found["after_step"] is None else f"After step {found['after_step']}"
    how = "ended with an exception after" if found["raised"] else "had not ended after"
    of_it = f"; {found['exchange']} took {milliseconds(found['exchange_ms'])} of it" if found["exchange"] else ""
    return [f"{moment}, {found['phase']} {how} {milliseconds(found['ms'])}{of_it}"]


def uncompiled(summary: dict[str, Any]) -> list[str]:
    """Return lines about the functions that `torch.compile` did not compile as a whole."""
    found = summary["compile"]
    places = [f"{place['function']} line {place['line']}" for place in found["graph_breaks"]]
    broken, without = (wording.some(each[:SHOWN], len(each)) for each in (places, found["without_graph"]))
    lines = []
    if broken:
        lines.append(f"torch.compile broke the graph in {broken} (TORCH_LOGS=graph_breaks says why)")
    if without:
        lines.append(f"torch.compile made no graph of {without}: own operators run uncompiled")
    return lines


def again(summary: dict[str, Any]) -> list[str]:
    """Return a line about what backward passes recompute, if that takes much of the steps' time on a CPU."""
    found = summary.get("recomputation")
    if not found or found["share"] < _AGAIN or summary.get("device"):
        return []
    names = wording.some(found["modules"], found["count"])
    took = f"{found['share'] * 100:.0f} % of the step, {milliseconds(found['per_step_ms'])},"
    return [f"In the backward pass, {took} recomputes the forward pass of {names}"]


def interrupted(summary: dict[str, Any]) -> list[str]:
    """Return a line about kernels of a device that took far longer than the same kernel in other steps."""
    found = (summary.get("device") or {}).get("long_kernels")
    if not found:
        return []
    what = f"{found['count']:,} of {found['of']:,} kernels took far longer than the same kernel in other steps"
    much = f"{milliseconds(found['excess_ms'])} longer, {found['share'] * 100:.1f} % of the time of all kernels"
    return [f"{what}, together {much}: another program may have used the device at the same time"]


def beside(summary: dict[str, Any]) -> list[str]:
    """Return a line about each thread that trains beside the stepping thread."""
    sampled = "at least " * bool(summary.get("sampling"))
    return [
        f"The thread {found['thread']} trains, too: {sampled}{found['updates']} steps of an optimizer, "
        f"{sampled}{milliseconds(found['ms'])}. This work is in no step and no share of the steps"
        for found in summary.get("other_trainings") or ()
    ]


def head(summary: dict[str, Any]) -> list[str]:
    """Return the lines between the step times of a summary and its tables."""
    first = [*halted(summary), *beside(summary), *outside(summary)]
    return [*first, *interrupted(summary), *uncompiled(summary), *again(summary)]


def typical(summary: dict[str, Any]) -> str:
    """Return the median and the 95th percentile of the step times, and the mean if it is far from the median.

    The figures leave out the first steps and steps that compiled. But if steps were sampled, the figures cover all
    steps, because the length of every step is known.
    """
    steps = summary["steps"]
    own = steps if summary.get("sampling") else steps["steady"]
    median, mean = own["median_ms"], own["mean_ms"]
    far = median and not 1 / _FAR < mean / median < _FAR
    usual = f"median {milliseconds(median)}" + f", mean {milliseconds(mean)}" * bool(far)
    return f"{usual}, p95 {milliseconds(own['p95_ms'])}"


def gaps(summary: dict[str, Any]) -> list[str]:
    """Return lines about data of the run that are incomplete, for example records that were lost."""
    counts = summary["completeness"]
    words = {
        "dropped": "records were refused (no space, or max_disk or max_memory was reached)",
        "torn": "records were torn",
        "cut": "records were cut off",
        "unknown": "records are of an unknown kind",
        "backwards": "records have impossible times",
        "impossible": "records have impossible numbers",
        "missing_strings": "records have lost their name",
        "damaged_kernels": "kernels could not be read",
        "damaged_memory": "records of memory could not be read",
        "damaged_events": "events could not be read",
        "unfinished_spans": "spans were still running when their process ended",
    }
    lines = [f"{counts[key]} {text}" for key, text in words.items() if counts.get(key)]
    coverage = summary["coverage"]
    if coverage["timeline_files"] > 1:
        lines.append(
            f"the timeline is in {coverage['timeline_files']} files, each with a part of the run: {layout.TRACE_VIEW}, "
            f"{layout.trace_slice(1)} and so on"
        )
    if coverage["kernel_steps"] is not None:
        lines.append(
            f"the timeline and {layout.KERNEL_DETAILS} have the kernels of {len(coverage['kernel_steps'])} steps "
            f"({coverage['kernels_kept']:,} of {coverage['kernels']:,}); the other tables count all of them"
        )
    lines += [f"{item['what']}: from {item['from_s']} s to {item['to_s']} s" for item in counts["lost_windows"]]
    lines += [f"{item['file']}: {item['reason']}" for item in counts["damaged_files"]]
    lines += [f"hook {target}: {reason}" for target, reason in summary["hooks"]["failed"].items()]
    lines += [
        f"the wall clock was set by {item['jump_ns'] / 1e6:.3f} ms during the run; our times do not follow the change"
        for item in summary["clock"]["wall_steps"]
    ]
    return lines


def memory(found: dict[str, Any] | None) -> list[str]:
    """Return lines about the memory of each process, and about how close their control group came to its memory limit.

    Args:
        found: `host_memory` of a summary.
    """
    if not found:
        return []
    lines = []
    for held in found["processes"][:SHOWN]:
        more = (("own memory", "anonymous_mb"), ("proportional", "proportional_mb"), ("swapped", "swapped_mb"))
        parts = [f"{name} {held[key]:,.1f} MiB" for name, key in more if held[key]]
        faults = f"{held['minor_faults']:,} minor and {held['major_faults']:,} major page faults"
        lines.append(f"process {held['pid']}: at most {held['peak_mb']:,.1f} MiB; {', '.join([*parts, faults])}")
    if len(found["processes"]) > SHOWN:
        lines.append(f"{len(found['processes']) - SHOWN} more processes held less")
    if found["peak_step"] is not None:
        lines.append(
            f"the largest sample of the stepping process in a step: {found['peak_step_mb']:,.1f} MiB in step "
            f"{found['peak_step']}"
        )
    if group := found["group"]:
        part = group["most_mb"] / max(group["limit_mb"], 1e-9)
        used = f"{group['most_mb']:,.1f} of {group['limit_mb']:,.1f} MiB"
        lines.append(f"the control group (container) used {used} ({part * 100:.1f} %), including memory for files")
    return lines


def machine(summary: dict[str, Any]) -> list[str]:
    """Return a line if other programs kept the processors busy; otherwise nothing."""
    found = summary.get("machine")
    if not found or not found["busy"]:
        return []
    others = "other programs or ranks" if summary["world_size"] > 1 else "other programs"
    return [
        f"it was busy with {others}: threads of the job waited for a processor in {found['pressure'] * 100:.1f} % of "
        f"the time in which they needed one, the stepping thread in {found['queued_share'] * 100:.1f} % of the steady "
        "steps, also while it computed; on an idle machine steps are shorter"
    ]


def cost(cost: dict[str, Any]) -> str:
    """Return a line about the cost of recording."""
    if cost["estimated_ms"] is None:
        return f"{cost['spans']} records; the cost of a record was not measured in this run"
    share = f" ({cost['share_of_run'] * 100:.2f} % of the run)" if cost["share_of_run"] is not None else ""
    parts = [f"{cost['spans']} records of {cost['span_ns']:.0f} ns"]
    if cost["start_ms"]:
        parts.append(f"{milliseconds(cost['start_ms'])} to start")
    if cost["drains"]:
        parts.append(f"{milliseconds(cost['drain_ms'])} to write kernels {cost['drains']} times")
    if cost["requested_ms"]:
        parts.append(f"{milliseconds(cost['requested_ms'])} of work that the script's own profiler requested")
    whole = f"about {milliseconds(cost['estimated_ms'])} in all{share}"
    beside = f"; the cost of {' and '.join(cost['beside'])} is not measured, and comes on top" if cost["beside"] else ""
    return f"{_paid(cost.get('paired'))}{', '.join(parts)}: {whole}{beside}"


def _paid(pairs: dict[str, Any] | None) -> str:
    """Return words about the measured cost of recording; empty if no step without records was there to compare."""
    if pairs is None:
        return ""
    share, error, records = (100 * pairs[name] for name in ("share", "standard_error", "recording"))
    hooks, between, helper = (100 * pairs[name] for name in ("hooks", "between", "helper"))
    how = "computed from the cost of a hook in a loop"
    if pairs["hooks_own"] is not None:
        own = f"{100 * pairs['hooks_own']:.2f} % of their own code, measured in {pairs['hooks_steps']} steps"
        how = f"estimated from the {own}"
    return (
        f"your job paid {share:.2f} % ± {error:.2f} of the time of its steps: {records:.2f} % for records, measured on "
        f"{pairs['pairs']} pairs of neighbouring steps with and without records, {hooks:.2f} % for hooks in all steps "
        f"({how}), {between:.2f} % for work between steps, measured, and {helper:.2f} % for a thread of ms-profiler, "
        "measured as processor time. Computed: "
    )


def files(directory: str) -> list[str]:
    """Return the files of the result that the user may open next, and the tools that open them."""
    return [
        directory,
        f"{layout.OUTPUT}/{layout.TRACE_VIEW}: MindStudio Insight; {layout.PERFETTO_TRACE} beside it: https://ui.perfetto.dev",
        f"{layout.OUTPUT}: msprof-analyze and spreadsheets; {layout.SUMMARY}: this page for programs",
    ]


def derived(summary: dict[str, Any], directory: str) -> list[str]:
    """Return lines about files that the analysis added to another tool's result, and about files left unchanged."""
    lines = [directory]
    if written := summary["derived"]["written"]:
        lines.append(f"derived: {', '.join(sorted(written))}")
    if existing := summary["derived"]["kept"]:
        lines.append(f"existed before, and left unchanged: {', '.join(sorted(existing))}")
    return [*lines, f"{layout.SUMMARY}: this page for programs"]


def who(process: dict[str, Any]) -> str:
    """Return a text that names a process: its role and name, if any, and its pid."""
    name = " ".join(str(process[key]) for key in ("role", "name") if process[key])
    return f"{name} (pid {process['pid']})"


def at_most(memory: dict[str, Any]) -> bool:
    """Return whether the known owners of tensor memory are those at its peak, and not those of another step."""
    return bool(memory["at_peak"]["allocated_mb"] >= memory["peak_mb"])


def peak(memory: dict[str, Any]) -> list[str]:
    """Return lines about what held the tensor memory at its peak: parameters, gradients and so on.

    Args:
        memory: `memory` of a summary, with its `at_peak`.
    """
    found = memory["at_peak"]
    text, largest = f"peak {found['allocated_mb']:,.2f} MiB in step {found['step']}", found["largest"]
    if not at_most(memory):
        sampled = memory["peak_step_mb"] == memory["peak_mb"]  # else the peak is outside of the steps
        text = f"owners are known in {'sampled' if sampled else 'recorded'} steps only; the highest {text}"
    if largest is not None:
        text += f", {largest['mb']:,.2f} MiB of it {largest['kind']}"
        text += f" of {largest['module']}" if largest["module"] else ""
        text += f", taken by {largest['operator']}" if largest["operator"] else ""
    return [text, "; ".join(f"{kind['kind']} {kind['mb']:,.2f} MiB" for kind in found["kinds"])]
