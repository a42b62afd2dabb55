"""Find the share of the steps' time, or of the kernels' time, that each owner (a module or an optimizer) takes."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import (
    backward_operators,
    bounds,
    intervals,
    kernels,
    known_waits,
    module_tree,
    module_waits,
    outliers,
    owners,
    sampling,
    verdict,
)
from ms_profiler.analysis.metrics.diagnosis import Diagnosis
from ms_profiler.analysis.metrics.outliers import Outlier
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import tapes
from ms_profiler.analysis.streams.kernel_stream import Stream
from ms_profiler.store.format import Category
from ms_profiler.store.names import LEARNING_RATE

#: the text about a module names an operator if it takes at least this share of the module's time
NAMED: Final = 0.2
#: a module that takes longer than similar modules is named if it takes this share of the time more than each of them
EXCESS: Final = 0.05
#: the text says that an operator takes most of a module's time if it takes at least this share
MOSTLY: Final = 0.5

#: the recorded steps cut into phases (`phases.pieces`), and the phases of a mean step (`other_steps.steady_phases`)
Phased = tuple[pl.DataFrame, pl.DataFrame]

_CALLS: Final = pl.Schema({"module": pl.String, "calls": pl.UInt64})


@dataclass(frozen=True)
class Ownership:
    """The modules of a run, with the time that each of them takes.

    Attributes:
        basis: what the times measure: "host" for the stepping thread, "kernels" for kernels.
        steps: the number of steps that the times cover; 1 if the times are sums over the kernels of all steps.
        whole_ns: time of these steps, or of these kernels. If steps were sampled, that of as many mean steps.
        tree: the tree of modules, from `module_tree.rows`, with times that are parts of `whole_ns`.
        sums: the time of each owner in each step, from `owners.sums`, over all steps with known contents.
        pieces: for "host", the result of `owners.pieces`. For "kernels", the kernels in memory, with the same columns,
            and `kernel` and `shapes`. Kernels may overlap, and `step` is the step that queued the kernel.
        process: pid of the process with these modules.
        estimated_ns: how much of the modules' time is estimated, because some steps were not sampled.
        others: threads that call backward passes for themselves; what they do belongs to no module of the tree.
    """

    basis: str
    steps: int
    whole_ns: int
    tree: pl.DataFrame
    sums: pl.DataFrame
    pieces: pl.DataFrame
    process: int
    estimated_ns: int = 0
    others: frozenset[int] = frozenset()

    @cached_property
    def by_step(self) -> pl.DataFrame:
        """Return the time of each known owner in each step: `step` (UInt32), `owner`, `self_ns`."""
        known = self.sums.drop_nulls("owner").cast({"step": pl.UInt32})
        return known.group_by("step", "owner").agg(pl.col("self_ns").sum())

    @property
    def outside_ns(self) -> int:
        """Return the time in ns that no module of the tree has."""
        return self.whole_ns - int(self.tree.filter(pl.col("depth") == 0)["total_ns"].sum())


def ownership(
    recording: tables.Recording, used: Steps, steady: pl.DataFrame, stream: Stream, phased: Phased | None = None
) -> Ownership | None:
    """Return the owners (modules or optimizers) of the time of the steps' kernels, if the modules of these are known.

    If they are unknown, return the owners of the stepping thread's time. If no module is known at all, return None.

    Args:
        recording: the run.
        used: the steps in use.
        steady: the steps of `used` that shares refer to, with `row`.
        stream: the kernels.
        phased: the phases of these steps; if steps were sampled, the tree then has the times of a mean step.
    """
    if not stream.of_steps.filter(pl.col("module").is_not_null(), pl.col("part") != int(Part.OPTIMIZER)).is_empty():
        return _of_kernels(stream, used)
    known = bool((recording.spans["category"] == int(Category.MODULE)).any())
    return of_steps(recording, used, steady, phased) if known else None


def on_host(
    found: Ownership | None,
    recording: tables.Recording,
    used: Steps,
    steady: pl.DataFrame,
    phased: Phased | None = None,
) -> Ownership | None:
    """Return the owners of the stepping thread's time, if the times of `found` are those of kernels.

    Return None for other times, or if the modules on the stepping thread are unknown.

    Args:
        found: the owners of the run, from `ownership`.
        recording: the run.
        used: the steps in use.
        steady: the steps of `used` that shares refer to, with `row`.
        phased: the phases of these steps, as for `ownership`.
    """
    device = recording.device
    if found is None or found.basis == "host" or (device is not None and device.on_host):
        return None
    modules = stepping(recording.spans, used, Category.MODULE)
    known = None if modules.is_empty() else of_steps(recording, used, steady, phased)
    return None if known is None or known.tree.is_empty() else known


def of_steps(recording: tables.Recording, used: Steps, chosen: pl.DataFrame, phased: Phased | None = None) -> Ownership:
    """Return the owners (modules or optimizers) of the stepping thread's time.

    Args:
        recording: the run.
        used: the steps in use.
        chosen: the steps of `used` that shares refer to, with `row`.
        phased: the phases of these steps, as for `ownership`.
    """
    known = used.table.with_row_index("row").filter("recorded")
    if recording.detailed is not None:
        known = known.filter(pl.col("number").is_in(recording.detailed))
    spans = recording.spans.with_row_index("row").filter(pl.col("process") == used.process)
    nodes = backward_operators.nodes(spans, recording.names, tapes.read(recording, used.process))
    others = frozenset(nodes["began"].drop_nulls().unique()) - {used.thread}
    nodes = nodes.filter(~pl.col("began").is_in(others).fill_null(False))
    cut = owners.pieces(spans, recording.names, used, nodes, known)
    sums = owners.sums(cut)
    steady = known.filter(pl.col("row").is_in(chosen["row"].implode()))
    steady = known if steady.is_empty() else steady
    whole_ns = int(steady["duration_ns"].sum())
    called = spans.filter(pl.col("category") == int(Category.MODULE), pl.col("thread") == used.thread)
    called = called.filter(intervals.locate(called["start_ns"], steady).is_not_null())
    counts = called.group_by("name").agg(pl.len().alias("calls"))
    calls = pl.DataFrame({"module": recording.names.gather(counts["name"]), "calls": counts["calls"]}).cast(_CALLS)
    times = sums.filter(pl.col("step").is_in(steady["row"].implode()))
    if phased is not None and recording.detailed is None and sampling.sampled(used):
        times, whole_ns = _in_all_steps(times, steady, *phased)
    tree = module_tree.rows(times, calls, whole_ns)
    return Ownership("host", steady.height, whole_ns, tree, sums, cut, used.process, others=others)


def _in_all_steps(
    times: pl.DataFrame, steady: pl.DataFrame, pieces: pl.DataFrame, shares: pl.DataFrame
) -> tuple[pl.DataFrame, int]:
    """Return the times of owners as in as many mean steps, and the time of these: recording makes sampled steps longer.

    Waits for data and checkpoints have their time in all steps, and the other phases divide the rest as in the sampled
    steps (`other_steps`). So an owner keeps its share of the time of the other phases.

    Args:
        times: the time of each owner in each of the sampled steps.
        steady: these steps, with `row`.
        pieces: the recorded steps cut into phases, from `phases.pieces`.
        shares: the phases of a mean step, from `other_steps.steady_phases`.
    """
    whole = float(shares["steady_ns"].sum()) * steady.height
    rest = pl.col("phase").is_in(known_waits.KNOWN).not_()
    recorded = intervals.total_ns(pieces.filter(rest, pl.col("step").is_in(steady["row"].implode())))
    factor = float(shares.filter(rest)["steady_ns"].sum()) * steady.height / max(recorded, 1)
    factor = min(factor, whole / max(int(times["self_ns"].sum()), 1))
    return times.with_columns((pl.col("self_ns") * factor).cast(pl.Int64)), round(whole)


def _of_kernels(stream: Stream, used: Steps) -> Ownership:
    texts = stream.texts
    shared, estimated_ns = stream.shared
    shared = shared.filter("in_step")
    times = shared.select(
        texts.gather(shared["module"]).alias("owner"), "part", "bound", pl.col("total_ns").alias("self_ns")
    )
    whole_ns = int(stream.of_steps["total_ns"].sum())
    tree = module_tree.rows(times, pl.DataFrame(schema=_CALLS), whole_ns)
    recorded = used.table.with_row_index("row").filter("recorded")["row"]
    table = stream.table.with_columns(stream.queued.alias("step"))
    table = table.filter(pl.col("step").is_in(recorded.implode()))
    pieces = table.select(
        pl.col("step").cast(pl.UInt32),
        texts.gather(table["module"]).alias("owner"),
        "part",
        "bound",
        "start_ns",
        (pl.col("start_ns") + pl.col("duration_ns")).alias("end_ns"),
        "kernel",
        "shapes",
    )
    return Ownership("kernels", 1, whole_ns, tree, owners.sums(pieces), pieces, used.process, estimated_ns)


def heaviest(
    found: Ownership,
    spans: pl.DataFrame,
    names: pl.Series,
    used: Steps,
    steady: pl.DataFrame,
    stream: Stream,
    least: float,
    optimizes: bool,
) -> str:
    """Return text about the module with most self time and its largest operator; empty if no module takes much.

    If a module takes far longer than similar modules, the text also names this module, and first if it takes more.

    Args:
        found: the modules of the run with their times, from `ownership`.
        spans: the spans of `operators.self_times`.
        names: the names of the recording.
        used: the steps in use.
        steady: the steps of `used` that shares refer to, with `row`.
        stream: the kernels.
        least: a module is named only if it takes at least this share of the time; above 1, no module is named.
        optimizes: whether to name an optimizer or the scheduler of learning rates instead of a module.
    """
    unit = "kernel time" if found.basis == "kernels" else "step" if found.steps > 1 else "time"
    far = None if optimizes else outliers.outlier(found.tree, found.whole_ns, least, EXCESS)
    longer = "" if far is None else f"{_far_longer(far, unit)}{_in_few(found, far.module, steady, inner=True)}"
    most = module_tree.heaviest(found.tree, found.whole_ns, optimizes)
    if most is None or most[1] < least:
        return longer
    module, share = most
    inside = _in_kernels(stream, module) if found.basis == "kernels" else _in_steps(found, spans, names, used, module)
    own = _itself(found.tree, module)
    name = module_waits.SCHEDULER if module == LEARNING_RATE else _named(module)
    few = _in_few(found, module, steady)
    like = "" if few or optimizes else _like(found)
    text = f"{name}{own} takes {share * 100:.0f} % of the {unit}{few or _mostly(inside)}{like}"
    if far is None:
        return text
    if far.module == module and not own:
        return f"{text}, {_others(far)}"
    texts = [text, longer]
    ahead = far.share > share and not f"{module}.".startswith(f"{far.module}.")
    return "; ".join(reversed(texts) if ahead else texts)


def _like(found: Ownership) -> str:
    """Return text about modules with about as much self time as the heaviest one, after a semicolon; empty without any.

    In a network of equal layers, one of them is the heaviest by chance.

    Args:
        found: the modules of the run with their times.
    """
    own = found.tree.filter(module_tree.COMPUTES)["self_ns"]
    near = own.filter(own * verdict.NEAR > own.max())
    if near.len() <= outliers.OTHERS:
        return ""
    together = near.sum() / max(found.whole_ns, 1) * 100
    return f"; {near.len() - 1} other modules take about as long, {together:.0f} % together with it"


def launching(found: Ownership | None, diagnosis: Diagnosis) -> str:
    """Return text about the module in which launching takes most time, if it stands out; empty if none does.

    The text is empty, too, if launching does not bound the steps, or if `found` has the times of kernels.

    Args:
        found: the owners of the time.
        diagnosis: the diagnosis of the run.
    """
    if found is None or found.basis != "host" or not diagnosis.launching:
        return ""
    # if spans were thinned, the owners of some steps are unknown
    moments = diagnosis.pieces.filter(pl.col("step").is_in(found.pieces["step"].unique().implode()))
    own = found.pieces.drop_nulls("owner").with_columns(code=pl.struct("owner", "part").rank("dense").cast(pl.Int64))
    launches = moments.filter(pl.col("part") == bounds.LAUNCH)
    line = intervals.timeline({"launch": launches, "code": own}, {"code": "code"})
    sums = line.filter(pl.col("launch") > 0).group_by("code").agg(self_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    times = own.select("owner", "part", "code", bound=pl.lit(0)).unique().join(sums, on="code")
    whole_ns = intervals.total_ns(moments)
    tree = module_tree.rows(times, pl.DataFrame(schema=_CALLS), whole_ns)
    if far := outliers.outlier(tree, whole_ns, 0.0, EXCESS):
        return _far_longer(far, "step", "launching in ", "in ")
    most = module_tree.heaviest(tree, intervals.total_ns(launches), optimizes=False)
    if most is None or most[1] <= MOSTLY:
        return ""
    module, share = most
    return f"{share * 100:.0f} % of the launching is in {_named(module)}{_itself(tree, module)}"


def _named(module: str) -> str:
    """Return the name of a module in a sentence; in a graph of MindSpore, its path may begin with a number."""
    return f"module {module}" if module[:1].isdigit() else module


def _itself(tree: pl.DataFrame, module: str) -> str:
    """Return a word that tells a module from the modules inside; empty if there are none."""
    return " itself" if bool(tree["module"].str.starts_with(f"{module}.").any()) else ""


def _far_longer(far: Outlier, unit: str, what: str = "", where: str = "") -> str:
    """Return text about a module that takes far longer than similar modules.

    Args:
        far: the module.
        unit: what has the time of which its share is computed.
        what: words before the module that say what takes the time.
        where: words before the similar modules.
    """
    return f"{what}{_named(far.module)} takes {far.share * 100:.0f} % of the {unit}, {where}{_others(far)}"


def _others(far: Outlier) -> str:
    others = f"each other {far.place}" if far.place else "each similar module beside it"
    return f"{others} at most {max(far.other * 100, 1):.0f} %"


def _in_few(found: Ownership, module: str, steady: pl.DataFrame, inner: bool = False) -> str:
    """Return text about a module with more than half of its time in few steps, after a comma; empty if it has not.

    Another program may have run for 16 ms while this module ran in one of 43 steps of 1.4 ms.

    Args:
        found: the modules of the run with their times.
        module: the module.
        steady: the steps that shares refer to, with `row`.
        inner: whether the time of its inner modules counts.
    """
    known = found.by_step.filter(pl.col("step").is_in(steady["row"].implode()))
    owner, examined = pl.col("owner"), known["step"].n_unique()
    own = known.filter((owner == module) | (owner.str.starts_with(f"{module}.") if inner else pl.lit(False)))
    times = own.group_by("step").agg(length=pl.col("self_ns").sum()).sort("length", descending=True)
    number = times.filter(verdict.fewest(MOSTLY)).height
    few = 0 < number <= verdict.FEW * examined
    return f", more than half of it in {number} of {examined} examined steps" if few else ""


def _mostly(inside: pl.DataFrame) -> str:
    """Return text about where most of a module's own time goes; empty if no operator takes much.

    Args:
        inside: `name` of an operator, `part` of a step and `share` of the module's own time, the largest first.
    """
    if inside.is_empty():
        return ""
    name, part, share = inside.row(0)
    name = kernels.shortened(name)
    of_pass = {int(Part.FORWARD): " of its forward pass", int(Part.BACKWARD): " of its backward pass"}.get(part, "")
    if share >= MOSTLY:
        return f", mostly {name}{of_pass}"
    if inside["share"].sum() < 1 - MOSTLY:
        return ", mostly outside of operators"
    return f", {share * 100:.0f} % of that in {name}{of_pass}" if share >= NAMED else ""


def _in_steps(found: Ownership, spans: pl.DataFrame, names: pl.Series, used: Steps, module: str) -> pl.DataFrame:
    """Return the share of each operator in a module's own time, in the form of `_mostly`; empty without operators."""
    operators = spans.filter(pl.col("process") == used.process, pl.col("category") == int(Category.OP))
    operators = operators.filter(~pl.col("thread").is_in(found.others))
    own = found.pieces.filter(pl.col("owner") == module)
    # some interfaces report operators only for a few steps
    table = used.table.with_row_index("row")
    known = table[intervals.locate(operators["start_ns"], table).unique().drop_nulls().sort()]["row"]
    own = own.filter(pl.col("step").is_in(known.implode()))
    place = intervals.locate(operators["start_ns"], own)
    inside = operators.with_columns(own["part"].gather(place).alias("part")).drop_nulls("part")
    summed = inside.group_by("name", "part").agg(pl.col("self_ns").sum())
    return _ranked(summed.with_columns(names.gather(summed["name"]).alias("name")), intervals.total_ns(own))


def _in_kernels(stream: Stream, module: str) -> pl.DataFrame:
    """Return the share of each type of kernels in a module's own time in the steps, in the form of `_mostly`."""
    sums = stream.shared[0].filter("in_step")
    own = sums.with_columns(stream.texts.gather(sums["module"]).alias("owner"))
    own = own.filter(pl.col("owner") == module)
    named = own.with_columns(stream.names["type"].gather(own["kernel"]).alias("name"))
    summed = named.group_by("name", "part").agg(pl.col("total_ns").sum().alias("self_ns"))
    return _ranked(summed, int(summed["self_ns"].sum()))


def _ranked(summed: pl.DataFrame, whole_ns: int) -> pl.DataFrame:
    ranked = summed.sort("self_ns", "name", descending=[True, False])
    return ranked.select("name", "part", pl.col("self_ns").truediv(max(whole_ns, 1)).alias("share"))
