"""Divide each step's time on a device into states, such as computing and communicating, and sum up the states."""

import polars as pl

from ms_profiler.analysis.metrics import device_steps, intervals, launched_steps, overlap
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables

#: forms of recordings in which a step consists of the tasks that the host launched in it, because no vendor defines
#: another formula
LAUNCHED = (tables.Form.KINETO, tables.Form.CUPTI)
#: forms of recordings in which a step is an interval of the host's clock
BY_HOST = (tables.Form.MINDSPORE, tables.Form.MS_PROFILER)


class DeviceTime:
    """Measures all steps of a run with the tasks of a device.

    All steps are measured, even if the user selected only some of them. Otherwise the time of the other steps would
    look like a pause. The selection is applied later.

    Args:
        device: the device.
        runs: all tasks of the device.
        steps: the steps of the run.
        names: the name of each row of the recording's spans.

    Attributes:
        spans: the interval of each step on the device, from `launched_steps.spans`.
    """

    def __init__(self, device: tables.Device, runs: pl.DataFrame, steps: Steps, names: pl.Series) -> None:
        self._device, self._steps, self._names = device, steps, names
        self._launches = runs["launch_ns"].null_count() < runs.height
        self._during = device_steps.windows(runs, steps, device.form)
        ended = runs.select("end_ns", launched_steps.owners(runs, steps, self._launches))
        self.spans = launched_steps.spans(ended, steps)
        self._copied = intervals.union(device.copies if device.whole is None else device.whole.copied)
        self._states: list[pl.DataFrame] = []
        self._moments: list[pl.DataFrame] = []
        self._times: list[pl.DataFrame] = []
        self._until = tables.EARLIEST
        self._busy_ns: int | None = None

    def owners(self, tasks: pl.DataFrame) -> pl.Series:
        """Return the step of each task, as a row of the steps; null for a task outside of the steps.

        A task belongs to the step that launched it. For the forms in `BY_HOST`, however, a task belongs to the step in
        which it starts.

        Args:
            tasks: some tasks of the run.
        """
        if self._device.form in BY_HOST:
            return self._during["step"].gather(intervals.locate(tasks["start_ns"], self._during)).alias("step")
        return launched_steps.owners(tasks, self._steps, self._launches)

    def take(self, tasks: pl.DataFrame) -> None:
        """Add the next part of the tasks. Parts come in order of time, and no task is in two parts.

        Args:
            tasks: tasks with `step` (from `owners`) and `launch`, the row of the span that launched the task.
        """
        form = self._device.form
        last = tasks["end_ns"].max()
        pieces = self._pieces(tasks, max(int(last), self._until) if isinstance(last, int) else self._until)
        if form in LAUNCHED:
            self._keep(pieces)
            self._times.append(launched_steps.sums(tasks.with_columns(self._bubbles(tasks))))
            return
        if form == tables.Form.MS_PROFILER:
            computed, exchanged = (intervals.union(tasks.filter(kind)) for kind in (~pl.col("exchange"), "exchange"))
            self._states.append(overlap.states(computed, exchanged, self._steps))
            self._times.append(overlap.by_step(self._states[-1]))
            return
        states = device_steps.states(tasks, self._busy_ns)
        self._busy_ns = int(states["end_ns"][-1]) if states.height else self._busy_ns
        self._keep(states.with_columns(self._during["step"].gather(intervals.locate(states["start_ns"], self._during))))
        if self._device.whole is None:
            self._times.append(device_steps.by_step(states, tasks, self._during, form))
        else:
            self._times.append(device_steps.sum_up(states, tasks.with_columns(self._bubbles(tasks)), self._during))

    def end(self) -> None:
        """Account for the time after the last task."""
        pieces = self._pieces(pl.DataFrame(schema=tables.RUNS), tables.LATEST)
        if self._device.form in LAUNCHED:
            self._keep(pieces)

    def states(self) -> pl.DataFrame:
        """Return the states of the steps, with the columns of `overlap.states`."""
        return pl.concat(self._states, how="diagonal")

    def moments(self) -> pl.DataFrame:
        """Return how long each step was in each state, with the columns of `launched_steps.moments`."""
        return launched_steps.moments(self._moments)

    def times(self) -> pl.DataFrame:
        """Return the times of each step by the recording tool's formulas, with the columns of `overlap.by_step`."""
        if self._device.form in LAUNCHED:
            return launched_steps.by_step(self._times, self.moments(), self.spans)
        return self._times[0] if self._device.whole is None else device_steps.add_up(self._times, self._during)

    def _pieces(self, tasks: pl.DataFrame, until: int) -> pl.DataFrame:
        pieces = launched_steps.pieces(tasks, self._copied, self.spans, self._until, until)
        self._until = until
        self._moments.append(launched_steps.states_of(pieces))
        return pieces

    def _keep(self, states: pl.DataFrame) -> None:
        """Store the states of those steps whose tasks the stream keeps one by one."""
        if self._device.within is not None:
            # the tasks of a step may still run long after the step's end on the host
            numbers = self._steps.table["number"].gather(states["step"])
            states = states.filter(numbers.is_in(self._device.within["number"].implode()))
        self._states.append(states)

    def _bubbles(self, tasks: pl.DataFrame) -> pl.Series:
        """Return for each task whether it waits for another stage of a pipeline, Boolean."""
        device, whole = self._device, self._device.whole
        if device.form == tables.Form.KINETO:
            purposes = tasks["type"]
        elif device.form == tables.Form.CUPTI:
            # NCCL uses one kernel for several collectives; only the name of the launching call tells the collective
            purposes = self._names.gather(tasks["launch"])
        else:
            assert whole is not None
            purposes = whole.kernels["name"].gather(tasks["kernel"])
        return device_steps.bubbles(purposes, device.form).fill_null(False).alias("bubble")
