"""Make the digest of one result: a small record of the figures of a rank or a trace, for comparisons."""

import os
from dataclasses import replace
from typing import Final

import polars as pl

from ms_profiler.analysis.comparison import (
    counting,
    hidden_waits,
    moments,
    outside_steps,
    recurrence,
    sampled,
    step_waits,
)
from ms_profiler.analysis.comparison.digest import (
    VERSION,
    Average,
    Cell,
    Completeness,
    DataWait,
    Digest,
    Fingerprint,
    Hint,
    Module,
    Named,
)
from ms_profiler.analysis.comparison.step_time import StepTime
from ms_profiler.analysis.metrics import dataset, intervals, long_kernels, module_tree, phases
from ms_profiler.analysis.metrics.diagnosis import Diagnosis, diagnose
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.steps import settled, stepping
from ms_profiler.analysis.streams.kernel_stream import Stream
from ms_profiler.store.format import Category
from ms_profiler.store.names import FETCHED

#: a job usually compiles its graphs within this number of first steps
WARMING: Final = 5
#: largest number of operators, of kernels, and of modules in a digest; those with the longest times are kept
MOST: Final = 500
#: names of the recording's options that change the counts
_OPTIONS: Final = ("op_time", "profiler_level", "record_shapes", "with_stack", "profile_memory", "profile_framework")


def condense(measures: Measures) -> Digest:
    """Return the digest of one result: a small record of all figures that a comparison needs.

    Args:
        measures: the measures of one result.
    """
    recording, info = measures.recording, measures.recording.info
    compiled = _warming(measures)
    steady = _steady(measures, compiled)
    found = _diagnosis(measures, compiled)
    usual = moments.usual(found, steady)
    inside: list[int] = steady["row"].filter(steady["row"].is_in(found.parts["step"].unique().implode())).to_list()
    counts = recording.counts
    long = long_kernels.found(recording, measures.stream.table)
    more = long_kernels.excess(long, measures.stream.table)
    parts = _parts(measures, found, inside, usual, more)
    others = sampled.others(measures)
    step = _step(measures, steady, others)
    waits = step_waits.waits(measures, steady, others, step.recorded_ns - step.median_ns)
    step = replace(
        step,
        mean_ns=step.mean_ns + waits.missing_ns,
        excesses=tuple(waits.excesses),
        wait_blocks=waits.blocks,
        queued_ns=hidden_waits.waited(measures, inside),
    )
    average = None
    if recurrence.apart(step.median_ns, step.mean_ns):
        ordered = steady.sort("start_ns")
        whole = recurrence.kept(ordered["row"].to_list(), ordered["duration_ns"].to_list())
        known = set(inside)
        average = waits.added(_parts(measures, found, inside, [row for row in whole if row in known], more))
    return Digest(
        version=VERSION,
        source=os.path.basename(os.path.abspath(recording.directory)),
        started_ns=int(min(recording.processes["first_ns"].to_list(), default=0)),
        step=step,
        told_ns=parts.told_ns,
        phases=parts.phases,
        bounds=parts.bounds,
        cells=parts.cells,
        modules=parts.modules,
        modules_of="" if measures.ownership is None else measures.ownership.basis,
        operators=parts.operators,
        kernels=parts.kernels,
        counts=counting.counts(measures, found, inside),
        waits=tuple(DataWait(row[0], int(row[1]), int(row[2])) for row in _waits(measures)),
        slow_transform=_slow(measures),
        memory=counting.memory(measures),
        advice=tuple(Hint(item.cause, item.what, item.share, item.evidence, item.action) for item in measures.advice),
        completeness=Completeness(
            expected=max(info.world_size, 1),
            present=(info.rank,),
            dropped=int(measures.completeness["dropped"]),
            damaged=counts.unreadable,
            ended=(_ended(measures),),
        ),
        fingerprint=_fingerprint(measures),
        outside=outside_steps.parts(measures),
        average=average,
        interrupted=0.0 if long is None else long.share,
        ended_ns=int(max(recording.processes["last_ns"].to_list(), default=0)),
        job=recording.info.job,
    )


def _parts(measures: Measures, found: Diagnosis, inside: list[int], rows: list[int], more: pl.Series) -> Average:
    """Return the parts of a step, as means over some steps.

    Args:
        measures: the measures of one result.
        found: the diagnosis of the run.
        inside: the rows of the steady steps whose content is known. Calls of operators and kernels are counted in them.
        rows: the rows of the steps over which times are averaged.
        more: by how many ns each kernel took longer than usual because it was interrupted, from `long_kernels.excess`.
    """
    cells = moments.cells(measures, found, rows, more)
    pieces = found.pieces.filter(pl.col("step").is_in(rows))
    length = (pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns")
    return Average(
        told_ns=int(cells["ns"].sum()),
        phases=_mean(_phases(measures, rows).select(name="phase", ns="duration_ns"), len(rows)),
        bounds=_mean(pieces.group_by(name="part").agg(length), len(rows)),
        cells=tuple(_cells(cells)),
        modules=_modules(measures, rows, more),
        operators=_operators(measures, inside, rows),
        kernels=_kernels(measures, inside, rows, more),
    )


def _warming(measures: Measures) -> list[int]:
    """Return the rows of the steps that are left out because something was compiled in them.

    If steps compile again and again, only the first `WARMING` steps are left out.
    """
    known = measures.steps.table.with_row_index("row").filter("recorded")["row"].to_list()
    compiled = set(measures.compiled)
    later = [row for row in known[WARMING:] if row in compiled]
    if len(later) <= sampled.REPEATED * len(known[WARMING:]):
        return list(measures.compiled)
    return [row for row in known[:WARMING] if row in compiled]


def _steady(measures: Measures, compiled: list[int]) -> pl.DataFrame:
    known = measures.steps.table.with_row_index("row").filter("recorded")
    disturbed = compiled + measures.interrupted
    return known.filter(pl.col("row").is_in(settled(known, disturbed, measures.steps.source)))


def _diagnosis(measures: Measures, compiled: list[int]) -> Diagnosis:
    if compiled == list(measures.compiled):
        return measures.diagnosis
    own = (measures.recording, measures.steps, measures.pieces, measures.spans, measures.stream)
    return diagnose(*own, measures.host_operators, measures.calls, compiled)


def _step(measures: Measures, steady: pl.DataFrame, others: pl.DataFrame | None) -> StepTime:
    known = steady if others is None else others
    durations = known.sort("start_ns")["duration_ns"].to_list()
    inside = [] if others is None else steady.sort("start_ns")["duration_ns"].to_list()
    recording, table = measures.recording, measures.steps.table
    first = None
    if not recording.foreign and table.height:
        first = int(table["end_ns"][0]) - int(min(recording.processes["first_ns"].to_list()))
    return StepTime(
        median_ns=round(known["duration_ns"].median() or 0),  # type: ignore[arg-type]
        first_ns=first,
        durations_ns=tuple(durations),
        count=len(durations),
        total=table.height,
        source=measures.steps.source.name.lower(),
        mean_ns=recurrence.mean(durations),
        sampled=0 if others is None else steady.height,
        recorded_ns=0 if others is None else round(steady["duration_ns"].median() or 0),  # type: ignore[arg-type]
        own_first_ns=int(table["duration_ns"][0]) if table.height else None,
        long_sampled_ns=tuple(recurrence.beyond(inside)),
    )


def _phases(measures: Measures, rows: list[int]) -> pl.DataFrame:
    times = phases.by_step(measures.pieces.filter(pl.col("step").is_in(rows)))
    return times.group_by("phase").agg(pl.col("duration_ns").sum())


def _mean(sums: pl.DataFrame, count: int) -> dict[str, int]:
    ordered = sums.sort("ns", "name", descending=[True, False])
    return {name: round(total / max(count, 1)) for name, total in ordered.select("name", "ns").iter_rows()}


def _cells(table: pl.DataFrame) -> list[Cell]:
    return [Cell(*row) for row in table.iter_rows()]


def _modules(measures: Measures, rows: list[int], more: pl.Series) -> tuple[Module, ...]:
    found = measures.ownership
    if found is None:
        return ()
    sums = found.sums if found.basis == "host" else _without(found.sums, measures.stream, more)
    known = sums.filter(pl.col("step").is_in(rows))
    if known.is_empty():
        known = sums
    count = max(known["step"].n_unique(), 1)
    within = module_tree.within(known).group_by("module").agg(pl.exclude("step").sum())
    placed = found.tree.with_row_index("place").select("module", "place", "calls")
    kinds = _classes(measures)
    orders = _orders(measures)
    table = within.join(placed, on="module", how="left").sort("total_ns", "module", descending=[True, False])
    return tuple(
        Module(
            path=row["module"],
            kind=kinds.get(row["module"], ""),
            order=orders.get(row["module"], row["place"] or 0),
            calls=None if row["calls"] is None else round(row["calls"] / max(found.steps, 1), 3),
            forward_ns=round(row["forward_ns"] / count),
            backward_ns=round(row["backward_ns"] / count),
            optimizer_ns=round(row["optimizer_ns"] / count),
            total_ns=round(row["total_ns"] / count),
            self_ns=round(row["self_ns"] / count),
        )
        for row in table.head(MOST).iter_rows(named=True)
    )


def _without(sums: pl.DataFrame, stream: Stream, more: pl.Series) -> pl.DataFrame:
    """Return the times of the modules' kernels without the excess of interrupted kernels.

    Args:
        sums: the times, with the columns of `module_tree.SUMS`.
        stream: the kernels.
        more: the excess of each kernel, ns.
    """
    key = ("step", "owner", "part", "bound")
    cut = stream.table.with_columns(
        more, stream.queued.alias("step"), owner=stream.texts.gather(stream.table["module"])
    )
    cut = cut.filter(pl.col("excess_ns") > 0).cast({"step": pl.UInt32})
    lost = cut.group_by(key).agg(pl.col("excess_ns").sum())
    joined = sums.join(lost, on=key, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.col("self_ns") - pl.col("excess_ns").fill_null(0)).drop("excess_ns")


def _classes(measures: Measures) -> dict[str, str]:
    """Return module -> class, for the modules whose kernels name their class."""
    known = measures.stream.names.drop_nulls(["module", "class"])
    return dict(known.select("module", "class").iter_rows())


def _orders(measures: Measures) -> dict[str, int]:
    """Return module -> position in the order of the modules' first calls."""
    recording = measures.recording
    called = recording.spans.filter(pl.col("category") == int(Category.MODULE))
    first = called.group_by("name").agg(pl.col("start_ns").min()).sort("start_ns", "name")
    return {name: place for place, name in enumerate(recording.names.gather(first["name"]))}


def _operators(measures: Measures, inside: list[int], rows: list[int]) -> tuple[Named, ...]:
    steps, names = measures.steps, measures.recording.names
    table = steps.table.with_row_index("row").filter(pl.col("row").is_in(inside)).sort("start_ns")
    own = stepping(measures.spans, steps, Category.OP)
    own = own.with_columns(step=table["row"].gather(intervals.locate(own["start_ns"], table))).drop_nulls("step")
    summed = own.group_by("name").agg((~pl.col("repeated")).sum().alias("count"), _in("self_ns", rows).alias("ns"))
    named = summed.with_columns(names.gather(summed["name"]).alias("name"), kind=pl.lit(""))
    return _named(named, len(inside), len(rows))


def _kernels(measures: Measures, inside: list[int], rows: list[int], more: pl.Series) -> tuple[Named, ...]:
    stream = measures.stream
    own = stream.table.with_columns(pl.col("duration_ns") - more).filter(pl.col("step").is_in(inside))
    summed = own.group_by("kernel").agg(pl.len().alias("count"), _in("duration_ns", rows).alias("ns"))
    kinds = stream.names.select(pl.col("full_name").alias("name"), pl.col("type").fill_null("").alias("kind"))
    named = pl.concat([kinds[summed["kernel"]], summed.drop("kernel")], how="horizontal")
    return _named(named, len(inside), len(rows))


def _in(length: str, rows: list[int]) -> pl.Expr:
    """Return the sum of a column over some steps, as for phases and modules."""
    return pl.col(length).filter(pl.col("step").is_in(rows)).sum()


def _named(summed: pl.DataFrame, counted: int, timed: int) -> tuple[Named, ...]:
    """Return the operators or kernels with the longest times.

    Args:
        summed: `name`, `kind`, `count` and `ns`.
        counted: number of the steps to which `count` belongs.
        timed: number of the steps to which `ns` belongs.
    """
    table = summed.group_by("name", "kind").agg(pl.col("count").sum(), pl.col("ns").sum())
    ordered = table.sort("ns", "name", "kind", descending=[True, False, False]).head(MOST)
    return tuple(
        Named(name, kind, round(number / max(counted, 1), 3), round(total / max(timed, 1)))
        for name, kind, number, total in ordered.select("name", "kind", "count", "ns").iter_rows()
    )


def _waits(measures: Measures) -> list[tuple[str, int, int]]:
    """Return (operation, count, total time in ns) of each operation for which the training process waited.

    If other processes fetch batches, too, the training process's own fetches are left out. They then say nothing about
    the waits, because they belong to another loader.
    """
    names, own = measures.recording.names, pl.col("process") == measures.steps.process
    fetches = pl.col("name").is_in((names == FETCHED).arg_true().implode())
    if not measures.spans.filter(~own, fetches).is_empty():
        own &= ~fetches
    found = dataset.waits(measures.spans.filter(own), names)
    return list(found.select("operation", "count", "total_ns").iter_rows())


def _slow(measures: Measures) -> str:
    for pipeline in measures.pipelines:
        finding = pipeline.slowest()
        if finding is not None and finding.slow is not None:
            return finding.evidence
    return ""


def _ended(measures: Measures) -> str:
    if measures.recording.foreign:
        return ""
    own = measures.recording.processes.filter(pl.col("process") == measures.steps.process)
    return str(own["state"][0]) if own.height else ""


def _fingerprint(measures: Measures) -> Fingerprint:
    info, found = measures.recording.info, measures.ownership
    framework = info.framework
    paths = [] if found is None else found.tree["module"].to_list()
    return Fingerprint(
        cpu=info.machine.get("cpu", ""),
        cores=_number(framework.get("processors") or info.machine.get("cores", "")),
        device=info.machine.get("device") or framework.get("device", ""),
        host=info.host,
        python=info.python,
        framework=f"{framework.get('name', '')} {framework.get('version', '')}".strip(),
        profiler=info.product_version,
        mode=framework.get("mode", ""),
        threads=_number(framework.get("threads", "")),
        world_size=max(info.world_size, 1),
        network=tuple(sorted(path for path in paths if "." not in path)),
        modules=len(paths),
        options={name: str(info.options[name]) for name in _OPTIONS if name in info.options},
    )


def _number(text: str) -> int:
    return int(text) if str(text).isdecimal() else 0
