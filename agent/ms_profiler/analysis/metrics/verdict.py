"""Choose the biggest finding of a run from the parts of its steps (`metrics.bounds`), and put it into one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from ms_profiler.analysis.metrics import bounds, checkpoint_files, critical_path, intervals, module_waits, wording
from ms_profiler.analysis.metrics.kernels import shortened
from ms_profiler.analysis.metrics.known_waits import KNOWN
from ms_profiler.analysis.metrics.other_steps import AllSteps
from ms_profiler.analysis.metrics.phases import COMPUTING, NAMES, OTHER
from ms_profiler.analysis.metrics.scheduling import Crowd
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category, StepSource
from ms_profiler.store.names import CALLBACK
from ms_profiler.store.run_info import RunInfo

#: waiting is the biggest finding if it takes at least this part of a step, even if computing takes more
WAIT_SHARE = 0.2
#: words for the time of which a primitive takes a share
_KERNELS = "kernel time"
#: the primitive with the most kernel time is named if it takes at least this part of the kernel time
KERNEL_SHARE = 0.2
#: a phase is named if it takes more than this share of a part's time
WITHIN_SHARE = 0.5
#: a phase with less than half of the time dominates only if it takes this many times as long as any other one
NEAR = 1.3
#: a part of the steps lies in few steps if at most the share `FEW` of them have at least the share `NEARLY` of its time
FEW, NEARLY = 0.1, 0.9
#: The heaviest module is named if it takes at least this share of the time. The first value is for findings about
#: computing. The second value is for findings about the host, whose code may also run outside of the model.
MODULE_SHARE, MODULE_SHARE_OF_HOST = 0.05, 0.5

_WAITS = {
    bounds.DATA: "waits for data",
    bounds.COMMUNICATION: "is communication that does not overlap with computing",
    bounds.SYNC: "waits for the device",
    bounds.CHECKPOINT: checkpoint_files.WRITES,
    bounds.GARBAGE: "is garbage collection by Python",
    bounds.BLOCKED: "is spent asleep or blocked",
}
#: parts of a step besides waits that may be the largest part -> words in the sentence
_REST = {
    bounds.COMPILE: "compiles",
    bounds.LAUNCH: "goes into launching operators",
    bounds.HOST: "is other code of the script",
    bounds.UNKNOWN: "is in code that ms-profiler does not measure",
    bounds.RUNNABLE: "waits for a processor",
}
#: parts that occur only on a device -> words for them in the sentence
_GAPS = {critical_path.GAP: "is gaps before kernels that were launched already"}
#: words for reads of values in a job without a device; such a read waits for threads that compute
_READS_OF_HOST = "waits for values of tensors"
#: state of a device -> its name as a phase, and words for it in the sentence
_STATES = {
    "computing": ("computing", "is spent computing"),
    "not_overlapped": (NAMES[Category.COMMUNICATION], _WAITS[NAMES[Category.COMMUNICATION]]),
    "copying": ("copy", "is copies of memory"),
    "idle": ("free", "is idle"),
}


#: phases in which the host queues kernels, or waits while kernels run
_QUEUED = {NAMES[category] for category in (Category.FORWARD, Category.BACKWARD, Category.OPTIMIZER, Category.SYNC)}


@dataclass(frozen=True)
class Finding:
    """The biggest finding of a run: a phase or a part of the steps, its share, and a sentence about it.

    Attributes:
        kind: the phase or the part of the steps, or "nothing".
        share: the share of the steady steps' time; if compiling is the finding, the share of the run, or of all steps.
        sentence: the finding as a sentence with its numbers.
    """

    kind: str
    share: float
    sentence: str


@dataclass(frozen=True)
class Places:
    """Where the parts of the steps lie.

    Attributes:
        within: part of the steps -> phase with most of its time, from the function `within`.
        few: for each part that lies in few steps, how many of how many steps have nearly all of its time, as text.
        outside: the share of computing outside of all phases, from the function `outside`.
        causes: part of the steps -> the owner of most of its time, from `module_waits.within`.
        files: what the job does with checkpoints, from `checkpoint_files.does`.
    """

    within: Mapping[str, str]
    few: Mapping[str, str]
    outside: float
    causes: Mapping[str, str]
    files: str = checkpoint_files.WRITES

    @classmethod
    def of(
        cls, moments: pl.DataFrame, causes: Mapping[str, str], files: str, every: AllSteps | None = None
    ) -> "Places":
        """Find the places of parts.

        Args:
            moments: the pieces of the steps with their parts, from `bounds.parts`.
            causes: see the attribute.
            files: see the attribute.
            every: what is known of all steady steps; None if all of them are examined.
        """
        return cls(within(moments), few(moments, every), outside(moments), causes, files)


def finding(
    parts: Mapping[str, float],
    places: Places,
    shares: pl.DataFrame,
    source: StepSource,
    steps: int,
    kernels: pl.DataFrame | None = None,
    device: bool = False,
    queued: Mapping[str, float] | None = None,
) -> Finding:
    """Choose the biggest finding: the largest wait, then the largest part.

    Args:
        parts: part of the steps -> its share, from `bounds.shares`.
        places: where the parts of the steps lie.
        shares: the time of each phase, from `phases.shares`.
        source: source that decides where a step ends.
        steps: number of recorded steps.
        kernels: the times of kernels by primitive, from `kernels.by_type`; None without kernels.
        device: whether the job computes on a device.
        queued: the kernels' time in each part of a step, from `kernels.queued`, if the host runs ahead of the kernels
            that it queued.
    """
    whole = source == StepSource.WHOLE_RUN
    unit = "run" if whole else "step"
    ranked = sorted(((part, share) for part, share in parts.items() if share > 0), key=lambda item: -item[1])
    phases = dict(shares.select("phase", "steady_share").iter_rows())
    inside = {phase: share for phase, share in phases.items() if phase != OTHER and share > 0}
    known = inside or any(parts.get(part, 0.0) for part in (bounds.COMPUTING, bounds.LAUNCH))
    # if the run has no steps, time outside of operators is no finding: the table of the whole run shows this time
    if not steps or not ranked or (whole and (not known or ranked[0][0] == bounds.UNKNOWN)):
        return Finding("nothing", 0.0, "No step was recorded.")
    if not known and ranked[0][0] == bounds.UNKNOWN:
        return Finding("nothing", 0.0, "Nothing inside the steps was recorded.")
    # waits for a processor do not count, so the threshold is a part of the remaining time
    least = WAIT_SHARE * (1 - parts.get(bounds.RUNNABLE, 0.0))
    waits = [(part, share) for part, share in ranked if part in _WAITS and share >= least]
    # a wait is preferred to computing, but other code of the host is preferred to a wait if it has a larger share
    host = (bounds.HOST, 0.0 if whole else parts.get(bounds.HOST, 0.0))
    part, share = max(waits[0], host, key=lambda item: item[1]) if waits else ranked[0]
    texts = _WAITS | _REST | {bounds.CHECKPOINT: places.files} | ({} if device else {bounds.SYNC: _READS_OF_HOST})
    if part in texts:
        place, cause = places.within.get(part, OTHER), places.causes.get(part, "")
        where = f", most of it in {place}" if place not in (OTHER, part) else ""
        if cause:
            where = f", most of it in {cause if cause.startswith(CALLBACK) else module_waits.code(cause)}"
        if part in places.few and not whole:
            unit, where = "steps' time", f"{where}{in_few(places.few, part)}"
        sentence = f"{_percent(share)} of the {unit} {texts[part]}{where}."
        if inside and not whole and not cause and _is_outside(part, place, parts, phases):
            much = phases[OTHER]
            return Finding(OTHER, much, f"{_percent(much)} of the step is outside of the model; {sentence}")
        return Finding(part, share, sentence)
    phase = max(inside, key=lambda name: inside[name]) if inside else OTHER
    if phases.get(OTHER, 0.0) > inside.get(phase, 0.0):
        computes = places.within.get(part) == OTHER
        much, does = (places.outside, "computing ") if computes else (phases[OTHER], "")
        return Finding(OTHER, much, f"{_percent(much)} of the {unit} is {does}outside of the model{_leading(kernels)}.")
    if queued and phase in _QUEUED:
        phase = max(queued, key=lambda name: queued[name])
        if share < WITHIN_SHARE:
            much = f"{_percent(queued[phase])} of the time of kernels{_leading(kernels)}"
            sentence = f"{_percent(share)} of the {unit} is spent computing, and {phase} has {much}."
            return Finding(phase, queued[phase], sentence)
        sentence = _largest(whole, phase, queued, " of the time of kernels")
        return Finding(phase, queued[phase], f"{sentence}{_leading(kernels)}.")
    leading = _leading(kernels) if phase in COMPUTING else ""
    return Finding(phase, inside[phase], f"{_largest(whole, phase, inside, '')}{leading}.")


def _is_outside(part: str, place: str, parts: Mapping[str, float], phases: Mapping[str, float]) -> bool:
    """Return whether code outside of all phases takes most of the steps, while the job often waits for a processor.

    Such waits occur wherever the job runs. So the place is a better finding than the waits.

    Args:
        part: the part of the steps that is the finding so far.
        place: the phase with most of the part's time.
        parts: part of the steps -> its share.
        phases: phase -> its share.
    """
    crowded = parts.get(bounds.RUNNABLE, 0.0) >= WAIT_SHARE
    return crowded and phases.get(OTHER, 0.0) > WITHIN_SHARE and (part == bounds.RUNNABLE or place == OTHER)


def _largest(whole: bool, phase: str, shares: Mapping[str, float], of: str) -> str:
    """Return the begin of a sentence about the largest phase, or about several phases that are about as large.

    Args:
        whole: whether the sentence is about the whole run, and not about the steps.
        phase: the phase with the largest share.
        shares: phase -> share of the time.
        of: what the shares are shares of; empty for the steps or the run.
    """
    subject = "The run is" if whole else "The steps are"
    ranked = sorted(shares, key=lambda name: -shares[name])
    near = [name for name in ranked if shares[name] * NEAR > shares[phase]]
    if len(near) == 1 or shares[phase] >= WITHIN_SHARE:
        return f"{subject} dominated by {phase} ({_percent(shares[phase])}{of})"
    named = wording.series([f"{name} ({_percent(shares[name])})" for name in near]) + of
    if sum(shares[name] for name in near) < WITHIN_SHARE:
        return f"The largest parts of the {'run' if whole else 'steps'} are {named}"
    return f"{subject} mostly {named}"


def least_of_module(kind: str, of_steps: bool) -> float:
    """Return the smallest share at which the sentence names the heaviest module; 2 means that it names no module.

    Args:
        kind: the phase or part of the steps that is the finding.
        of_steps: whether the modules' shares are shares of the steps; if not, they are shares of the kernels' time.
    """
    if kind in (bounds.HOST, bounds.BLOCKED, bounds.RUNNABLE):
        return MODULE_SHARE_OF_HOST if of_steps else 2.0
    if optimizes(kind):
        return MODULE_SHARE if of_steps else 2.0
    return MODULE_SHARE if kind in (*COMPUTING, "computing", bounds.LAUNCH) else 2.0


def with_waits(heaviest: str, crowd: Crowd, device: tables.Device | None) -> str:
    """Return text about the heaviest module, with the waits for a processor if these take most of the time.

    The time of a kernel of a processor, or of a module on the host, contains the waits of its thread. If most of the
    time is waits, a module may be the heaviest only because its thread often waits there.

    Args:
        heaviest: the text about the heaviest module; may be empty.
        crowd: the waits of the job's threads.
        device: the device that computed; None if the processor did.
    """
    if not heaviest or crowd.others <= WITHIN_SHARE or not (device is None or device.on_host):
        return heaviest
    waits = (
        f"threads of the job waited for a processor in {_percent(crowd.others)} of the time in which they needed one"
    )
    return f"{heaviest}, but this time contains waits: {waits}"


def launches(kind: str, basis: str | None) -> bool:
    """Return whether the module that launches most explains a finding, and not the one with the longest kernels.

    Args:
        kind: the kind of the finding.
        basis: what the times of modules measure, as in `Ownership`; None if no module is known.
    """
    return kind == _STATES["idle"][0] or (kind == bounds.LAUNCH and basis == "kernels")


def optimizes(kind: str) -> bool:
    """Return whether a finding of this kind is about optimizers."""
    return kind == NAMES[Category.OPTIMIZER]


def within(moments: pl.DataFrame) -> dict[str, str]:
    """Return for each part of a step the phase that contains more than half of the part's time, if there is one.

    Args:
        moments: the pieces of the steps with their parts, from `bounds.parts`.
    """
    length = (pl.col("end_ns") - pl.col("start_ns")).sum().alias("length")
    sums = moments.group_by("part", "phase").agg(length).with_columns(whole=pl.col("length").sum().over("part"))
    most = sums.filter(pl.col("length") > WITHIN_SHARE * pl.col("whole"))
    return dict(most.select("part", "phase").iter_rows())


def few(moments: pl.DataFrame, every: AllSteps | None = None) -> dict[str, str]:
    """Return for each part that lies in few steps how many of how many steps have nearly all of its time, as text.

    Args:
        moments: the pieces of the steps with their parts, from `bounds.parts`.
        every: what is known of all steady steps; None if all of them are examined.
    """
    examined = moments["step"].n_unique()
    length = (pl.col("end_ns") - pl.col("start_ns")).sum().alias("length")
    sums = moments.group_by("part", "step").agg(length)
    kind = "steps" if every is None else "examined steps"
    steps = dict.fromkeys(sums["part"].unique().to_list(), (examined, kind))
    if every is not None:
        known = every.waits.select(part="phase", step="step", length="duration_ns")
        known = known.group_by("part", "step").agg(pl.col("length").sum())
        recorded = (*KNOWN, bounds.GARBAGE)  # in all steps
        sums = pl.concat([sums.filter(~pl.col("part").is_in(recorded)), known], how="vertical_relaxed")
        steps |= dict.fromkeys(recorded, (every.count, "steps"))
    count = sums.sort("length", descending=True).filter(fewest(NEARLY).over("part")).group_by("part").len()
    rows = [(part, number, *steps[part]) for part, number in count.iter_rows()]
    return {part: f"{number} of {whole} {what}" for part, number, whole, what in rows if number <= FEW * whole}


def fewest(share: float) -> pl.Expr:
    """Return an expression that tells whether a row is one of the fewest whose `length` makes up a share of the sum.

    Args:
        share: the share, from 0 to 1. The rows are sorted by `length`, the longest first.
    """
    length = pl.col("length")
    return length.cum_sum() - length < share * length.sum()


def in_few(found: Mapping[str, str], part: str) -> str:
    """Return words about a part that lies in few steps, after a comma; empty if it does not.

    Args:
        found: the result of the function `few`.
        part: the part of the steps.
    """
    return f", nearly all of it in {found[part]}" if part in found else ""


def outside(moments: pl.DataFrame) -> float:
    """Return the share of the steps' time in which something computed outside of all phases.

    Args:
        moments: the pieces of the steps with their parts, from `bounds.parts`.
    """
    own = moments.filter(pl.col("part") == bounds.COMPUTING, pl.col("phase") == OTHER)
    return intervals.total_ns(own) / max(intervals.total_ns(moments), 1)


def of_device(
    device: tables.Device, info: RunInfo, moments: pl.DataFrame, kernels: pl.DataFrame, times: pl.DataFrame
) -> Finding:
    """Choose the largest part of the steps on a device: computing, communication alone, copies alone, or idle time.

    If the largest part is idle time, the sentence also names what takes most of the idle time, if that is known.

    share = sum of this part over the steps / sum of the steps' lengths on the device.

    Args:
        device: the tables of the device, or of the operators if they computed on the processor.
        info: the run's record.
        moments: the time of each state of the device in each step, from `launched_steps.moments`.
        kernels: the times of kernels by primitive, from `kernels.by_type`.
        times: the time of each part in each of these steps, from `bounds.by_step`.
    """
    processor = info.framework.get("device") == "CPU"
    if device.unread:
        return Finding("nothing", 0.0, f"The work of the device is unknown: {device.unread}.")
    sums = {name: int(moments[name].sum()) for name in _STATES}
    total = sum(sums.values())
    if total <= sums["idle"]:
        return Finding("nothing", 0.0, f"Nothing ran {'' if processor else 'on the device '}in the steps.")
    kind = max(sums, key=lambda name: sums[name])
    share = sums[kind] / total
    leading = ""
    if kind == "computing" and not kernels.is_empty():
        leading = _most(kernels, "computing kernels' time" if device.totals.exchanges else _KERNELS)
    if kind == "idle":
        # exchanges of the host, such as gloo's, leave the device idle; those of the device do not
        parts = bounds.shares(times)
        others = 0.0 if sums["not_overlapped"] else parts.get(bounds.COMMUNICATION, 0.0)
        leading = _why({**parts, bounds.COMMUNICATION: others}, share)
    whose = "the time of the steps" if processor else "the device's time"
    # a processor of the host that runs no operator is not idle, because it may run other code
    does = "passes without an operator" if processor and kind == "idle" else _STATES[kind][1]
    return Finding(_STATES[kind][0], share, f"{_percent(share)} of {whose} {does}{leading}.")


def _why(parts: Mapping[str, float], idle: float) -> str:
    """Return text about the part of the steps that takes more than half of the idle time; empty if none does."""
    texts = _WAITS | _REST | _GAPS
    part = max(texts, key=lambda name: parts.get(name, 0.0))
    share = parts.get(part, 0.0)
    return f"; {_percent(share)} of the step {texts[part]}" if share > WITHIN_SHARE * idle else ""


def _leading(kernels: pl.DataFrame | None) -> str:
    """Return text about the primitive that takes most of the kernel time; empty if its share is small."""
    if kernels is None or kernels.is_empty() or kernels["ratio"][0] < KERNEL_SHARE:
        return ""
    return _most(kernels)


def _most(kernels: pl.DataFrame, of: str = _KERNELS) -> str:
    return f"; {_percent(kernels['ratio'][0])} of the {of} is {shortened(kernels['name'][0])}"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
