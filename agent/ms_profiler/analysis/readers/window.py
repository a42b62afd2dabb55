"""Cut a store that several runs share to the part that belongs to one run.

A script may start the profiler while ms-profiler records the whole job. Then both runs read the same files, and each
run is cut to its own time. Times in this module are nanoseconds of CLOCK_MONOTONIC_RAW, as in the files.
"""

from dataclasses import dataclass

import polars as pl

from ms_profiler.store.format import Category, Flag, Kind
from ms_profiler.store.run_info import RunInfo

#: A script may start the profiler in the middle of a step, and stop it right before the end of a step. Such an
#: incomplete step is kept if: number of its spans >= PART * (median number of spans in a complete step)
PART = 0.5


@dataclass(frozen=True)
class Window:
    """An interval of a store.

    Attributes:
        start_ns: begin of the run; earlier events belong to another run. 0 if the whole store belongs to this run.
        end_ns: end of the run; events that begin at this time or later belong to another run. 0 for no end.
        shift: step number in the run = step number in the store + shift.
        step: number, in the store, of the step that was running at the end of the run.
        step_ns: begin of the step `step`; 0 if no step was running.
        source: what reported the step `step`, a `store.format.StepSource`.
    """

    start_ns: int = 0
    end_ns: int = 0
    shift: int = 0
    step: int = 0
    step_ns: int = 0
    source: int = 0

    @classmethod
    def of(cls, info: RunInfo) -> "Window":
        """Return the window that the run's record describes."""
        known = {name: int(info.window.get(name, 0)) for name in cls.__dataclass_fields__}
        return cls(**known)

    def cut(self, events: pl.DataFrame) -> pl.DataFrame:
        """Return the events of this run. An event that is still running at the end of the run is cut there.

        Args:
            events: rows of `columns.slots.SLOTS`; steps among them are not changed.
        """
        if not self.start_ns:
            return events
        step = pl.col("kind") == Kind.STEP
        selected = events.filter(step | (pl.col("start_ns") >= self.start_ns))
        if self.end_ns:
            selected = selected.filter(step | (pl.col("start_ns") < self.end_ns)).with_columns(
                end_ns=pl.when(step).then("end_ns").otherwise(pl.min_horizontal("end_ns", pl.lit(self.end_ns)))
            )
        return selected

    def clamp(self, time_ns: int) -> int:
        """Limit a time to the time of this run."""
        time_ns = max(time_ns, self.start_ns)
        return min(time_ns, self.end_ns) if self.end_ns else time_ns

    def steps(self, steps: pl.DataFrame, starts: pl.Series) -> pl.DataFrame:
        """Return the steps of this run, cut to the time of the run, and numbered as in the run.

        Args:
            steps: rows of `columns.slots.SLOTS`, of kind STEP.
            starts: the sorted times at which the job began any work, from `work`.
        """
        if not self.start_ns:
            return steps
        end_ns = self.end_ns or 1 << 62
        if self.step_ns and steps.filter(pl.col("arg") == self.step).is_empty():
            # The step `self.step` was running when the run ended, so it has no slot yet. Its thread is that of the
            # other steps. Without other steps, it is thread 1: the thread that starts the profiler writes first
            thread = steps["thread"][0] if steps.height else 1
            last = (self.step_ns, end_ns + 1, self.step, 0, int(Kind.STEP), self.source, 0, thread)
            steps = pl.concat([steps, pl.DataFrame([last], schema=steps.schema, orient="row")])
        cut = steps.filter(pl.col("end_ns") > self.start_ns, pl.col("start_ns") < end_ns).with_columns(
            start_ns=pl.max_horizontal("start_ns", pl.lit(self.start_ns)),
            end_ns=pl.min_horizontal("end_ns", pl.lit(end_ns)),
            whole=(pl.col("start_ns") >= self.start_ns) & (pl.col("end_ns") <= end_ns),
        )
        cut = cut.with_columns(
            spans=(starts.search_sorted(cut["end_ns"]) - starts.search_sorted(cut["start_ns"])).cast(pl.Int64)
        )
        whole = cut.filter("whole")["spans"]
        usual = whole.median() if len(whole) else cut["spans"].max()
        least = max(PART * float(str(usual or 0)), 1)
        # A step has the flag UNRECORDED if the schedule of another run in the same store left the step out. For this
        # run, the step was recorded, so the flag is removed. Steps that were not sampled keep their flag COARSE.
        return (
            cut.filter(pl.col("whole") | (pl.col("spans") >= least))
            .with_columns(
                arg=(pl.col("arg").cast(pl.Int64) + self.shift).cast(pl.UInt64, strict=False),
                flags=pl.col("flags") & ~int(Flag.UNRECORDED) % 256,
            )
            .select(steps.columns)
        )


def work(spans: pl.DataFrame, *starts: pl.Series) -> pl.Series:
    """Return the times at which the job began any work, sorted.

    Args:
        spans: `category` and `start_ns`. ms-profiler's own spans (PROFILER) are left out: they are no work of the job.
        starts: the begin times of other events; all of them count as work.
    """
    return pl.concat([spans.filter(pl.col("category") != Category.PROFILER)["start_ns"], *starts]).sort()
