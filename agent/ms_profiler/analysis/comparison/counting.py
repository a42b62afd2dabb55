"""Count the work of a step, and find the peak memory. These figures differ little from run to run."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from ms_profiler.analysis.comparison.digest import Count, Memory
from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.diagnosis import Diagnosis
from ms_profiler.analysis.metrics.graph_breaks import broken
from ms_profiler.analysis.metrics.handed_over import PASSED
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.steps import stepping
from ms_profiler.analysis.model.tables import Form
from ms_profiler.store.format import Category
from ms_profiler.store.names import HELD

OPERATORS: Final = "operators"
KERNELS: Final = "kernels"
COPIES: Final = "copies"
COPIED: Final = "copied_bytes"
SYNCHRONISATIONS: Final = "synchronisations"
COLLECTIVES: Final = "collectives"
EXCHANGED: Final = "collective_bytes"
RECOMPILES: Final = "recompiles"
GRAPHS: Final = "graphs"
BREAKS: Final = "graph_breaks"
COMPILED: Final = "compiled_steps"
#: names of the counts of a step (`NAMES`) and of a run (`OF_RUN`), in the order in which they are shown
NAMES: Final = (OPERATORS, KERNELS, COPIES, COPIED, SYNCHRONISATIONS, COLLECTIVES, EXCHANGED)
OF_RUN: Final = (RECOMPILES, GRAPHS, BREAKS, COMPILED)
#: names of the counts whose unit is bytes
BYTES: Final = (COPIED, EXCHANGED)

#: operators and primitives that copy a tensor; they are counted only if no device reports copies
_COPYING: Final = ("aten::copy_", "TensorMove", "Copy")
#: forms of results that list a device's copies in a separate table
_COPIES_TOLD: Final = (Form.KINETO, Form.CUPTI, Form.MSPTI)


def counts(measures: Measures, found: Diagnosis, rows: list[int]) -> dict[str, Count]:
    """Return those counts of a step and of the run that were recorded, by name.

    Args:
        measures: the measures of the run.
        found: the diagnosis of the run.
        rows: the rows of the steady steps whose content is known.
    """
    return dict(_of_steps(measures, found, rows)) | _of_run(measures, found)


def memory(measures: Measures) -> Memory:
    """Return the peak memory.

    Args:
        measures: the measures of the run.
    """
    recording = measures.recording
    held = recording.counters.filter(
        pl.col("process") == measures.steps.process,
        pl.col("name").is_in((recording.names == HELD).arg_true().implode()),
    )["value"].max()
    allocated = measures.memory["allocated"].max()
    device = recording.device
    taken = None
    if device is not None:
        if not device.reservations.is_empty():
            size = pl.col("bytes").cast(pl.Int64)
            signed = pl.when("allocates").then(size).otherwise(-size)
            by_time = device.reservations.sort("time_ns").select(
                "device", signed.cum_sum().over("device").alias("held")
            )
            taken = by_time["held"].max()
        elif not device.memory.is_empty():
            taken = device.memory["reserved"].max()
            allocated = device.memory["allocated"].max() if allocated is None else allocated
    return Memory(_whole(held), _whole(taken), _whole(allocated))


def _whole(value: object) -> int | None:
    return None if value is None else round(float(str(value)))


def _of_steps(measures: Measures, found: Diagnosis, rows: list[int]) -> Iterator[tuple[str, Count]]:
    recording, steps, stream = measures.recording, measures.steps, measures.stream
    table = steps.table.with_row_index("row").filter(pl.col("row").is_in(rows)).sort("start_ns")
    if table.is_empty():
        return
    operators = stepping(measures.spans, steps, Category.OP).filter(~pl.col("repeated"))
    known = not operators.is_empty()
    if known:
        yield OPERATORS, _each(_rows(operators["start_ns"], table), rows)
    device = recording.device
    if device is not None or (stream.decides and not stream.table.is_empty()):
        yield KERNELS, _each(stream.table["step"], rows)
    if device is not None:
        if device.form in _COPIES_TOLD or not device.copies.is_empty():
            inside = _rows(device.copies["launch_ns"].fill_null(device.copies["start_ns"]), table)
            copying = inside.is_not_null() & ~device.copies["sets"]
            yield COPIES, _each(inside.filter(copying), rows)
            yield COPIED, _each(inside.filter(copying), rows, device.copies["bytes"].filter(copying))
    elif not stream.table.is_empty() and stream.decides:
        types = stream.names["type"].is_in(_COPYING).gather(stream.table["kernel"])
        yield COPIES, _each(stream.table.filter(types)["step"], rows)
    elif known:
        names = recording.names.is_in(_COPYING).gather(operators["name"])
        yield COPIES, _each(_rows(operators.filter(names)["start_ns"], table), rows)
    yield SYNCHRONISATIONS, _each(_synchronising(measures, found, table), rows)
    calls = measures.calls
    # exchanges that PyTorch starts from C++ count only if their bytes are known
    exchanges = (recording.names.str.starts_with(PASSED)).gather(operators["name"])
    placed = _rows(operators.filter(exchanges)["start_ns"], table)
    yield COLLECTIVES, _each(placed if len(placed) > calls.height else calls["step"], rows)
    # in some results of other tools, exchanges have no bytes
    known = bool((calls["bytes"] > 0).any()) if calls.height else not len(placed)
    if known:
        yield EXCHANGED, _each(calls["step"], rows, calls["bytes"])


def _synchronising(measures: Measures, found: Diagnosis, table: pl.DataFrame) -> pl.Series:
    """Return, for each synchronisation, the row of its step.

    A synchronisation is a read of a value, or a call that waits for a device. Only the more frequent kind is counted.
    """
    device = measures.recording.device
    reads = found.reads["step"]
    if device is None or device.waits.is_empty():
        return reads
    calls = device.waits.filter(pl.col("name").str.contains("synchronize"))
    waits = _rows(calls["start_ns"], table)
    return waits if len(waits) >= len(reads) else reads


def _rows(times: pl.Series, table: pl.DataFrame) -> pl.Series:
    """Return for each time the row of the step that contains it."""
    return table["row"].gather(intervals.locate(times, table))


def _each(placed: pl.Series, rows: list[int], amount: pl.Series | None = None) -> Count:
    """Return the median, minimum and maximum number of events in a step.

    Args:
        placed: the row of the step of each event; null outside of steps.
        rows: the rows of the steps.
        amount: an amount for each event, such as its bytes. If it is given, the amounts are added up, and the events
            are not counted.
    """
    one = pl.repeat(1, len(placed), dtype=pl.Int64, eager=True) if amount is None else amount.cast(pl.Int64)
    summed = pl.DataFrame({"row": placed.cast(pl.UInt32), "n": one}).drop_nulls("row").group_by("row").agg(pl.sum("n"))
    every = pl.DataFrame({"row": rows}, schema={"row": pl.UInt32})
    found = every.join(summed, on="row", how="left")["n"].fill_null(0).sort().to_list()
    # for an even number of steps, the lower of the two middle values is taken, because it is the count of a real step
    return Count(float(found[(len(found) - 1) // 2]), float(found[0]), float(found[-1]))


def _of_run(measures: Measures, found: Diagnosis) -> dict[str, Count]:
    recording, steps = measures.recording, measures.steps
    if recording.foreign:
        return {}
    compiling = stepping(recording.spans, steps, Category.COMPILE)
    numbers = {
        RECOMPILES: found.recompiles.height,
        GRAPHS: compiling.height,
        BREAKS: len(broken(recording, steps).places),
        COMPILED: len(measures.compiled),
    }
    return {name: Count(float(number), float(number), float(number), "run") for name, number in numbers.items()}
