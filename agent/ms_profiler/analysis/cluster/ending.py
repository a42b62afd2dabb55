"""How the recording of a rank ends: what its stepping thread did after the last step, and how often it exchanged data.

The module `endings` compares these facts of several ranks.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ms_profiler.analysis.cluster.clock_offsets import JOINT
from ms_profiler.analysis.metrics import phases
from ms_profiler.analysis.metrics.steps import stepping
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Flag, StepSource

if TYPE_CHECKING:
    from ms_profiler.analysis.metrics.measures import Measures

#: keys of the completeness of a run that count records which the result lacks
_LACKING: Final = (
    *("dropped", "torn", "cut", "unknown", "backwards", "impossible", "missing_records", "missing_strings"),
    *("damaged_events", "damaged_files"),
)
#: an exchange is named if it takes at least this share of the last phase
_MOST: Final = 0.5


@dataclass(frozen=True)
class Ending:
    """How the recording of a rank ends. Times are in ns since the epoch.

    Attributes:
        step: the number of the last step; None if no step ended.
        step_end_ns: the end of this step, or the begin of the recording.
        phase: the last phase that began on the stepping thread after this step; empty if none began.
        start_ns: the begin of this phase, or 0.
        end_ns: the end of this phase, or 0.
        raised: whether an exception ended the phase.
        unfinished: whether the phase was open when the process ended.
        operation: the longest exchange within the phase, if it takes most of the phase; otherwise empty.
        group: the group of this exchange.
        number: index of this exchange among those of the same operation and group, from 0.
        exchange_start_ns: when the rank was ready for this exchange, or 0.
        exchange_ns: the length of this exchange, or 0.
        complete: whether every step and exchange of the whole run was recorded.
        exchanged_ns: the end of the last exchange, or 0.
        counts: operation, group and number of the exchanges that all ranks of a group make together.
    """

    step: int | None
    step_end_ns: int
    phase: str = ""
    start_ns: int = 0
    end_ns: int = 0
    raised: bool = False
    unfinished: bool = False
    operation: str = ""
    group: str = ""
    number: int = 0
    exchange_start_ns: int = 0
    exchange_ns: int = 0
    complete: bool = False
    exchanged_ns: int = 0
    counts: tuple[tuple[str, str, int], ...] = ()

    @property
    def halted(self) -> bool:
        """Return whether the last phase did not end normally."""
        return self.raised or self.unfinished

    @classmethod
    def of(cls, content: dict[str, Any]) -> "Ending":
        """Return the ending that JSON describes.

        Args:
            content: the attributes by name.

        Raises:
            KeyError, TypeError, ValueError: the content is no ending.
        """
        return cls(**{**content, "counts": tuple((str(a), str(b), int(n)) for a, b, n in content["counts"])})


def ending(measures: "Measures", exchanges: pl.DataFrame) -> Ending:
    """Return how the recording of a rank ends.

    Args:
        measures: the measures of the rank's run.
        exchanges: all exchanges of the rank, with the columns of `exchanged.EXCHANGES`.
    """
    recording, used = measures.recording, measures.steps
    counted = used.source != StepSource.WHOLE_RUN and used.table.height > 0
    begin = int(used.table["start_ns"].min() or 0)  # type: ignore[arg-type]
    after = int(used.table["end_ns"].max() or 0) if counted else begin  # type: ignore[arg-type]
    facts: dict[str, Any] = {
        "step": int(used.table["number"].max() or 0) if counted else None,  # type: ignore[arg-type]
        "step_end_ns": after,
        "complete": _complete(measures),
        "exchanged_ns": int(exchanges["end_ns"].max() or 0),  # type: ignore[arg-type]
        "counts": tuple(
            exchanges.filter(pl.col("operation").is_in(JOINT))
            .group_by("operation", "group")
            .len()
            .sort("operation", "group")
            .iter_rows()
        ),
    }
    own = stepping(recording.spans, used, *phases.NAMES).filter(pl.col("start_ns") >= after)
    outer = (pl.col("start_ns") >= pl.col("end_ns").cum_max().shift(1)).fill_null(True)
    last = own.sort("start_ns", "end_ns", descending=[False, True]).filter(outer).tail(1)
    for span in last.iter_rows(named=True):
        facts |= {
            "phase": phases.NAMES[span["category"]],
            "start_ns": span["start_ns"],
            "end_ns": span["end_ns"],
            "raised": bool(span["flags"] & Flag.RAISED),
            "unfinished": span["unfinished"],
        }
        if recording.device is None:  # a device lists an exchange only after its end
            facts |= _longest(exchanges, span["start_ns"], span["end_ns"])
    return Ending(**facts)


def _longest(exchanges: pl.DataFrame, start_ns: int, end_ns: int) -> dict[str, Any]:
    """Return the longest exchange within an interval, if it takes most of the interval."""
    numbered = exchanges.with_columns(number=pl.int_range(pl.len()).over("operation", "group"))
    inside = numbered.filter(pl.col("start_ns") >= start_ns, pl.col("end_ns") <= end_ns)
    length = pl.col("end_ns") - pl.col("start_ns")
    found = inside.with_columns(length.alias("length")).sort("length").tail(1)
    return {
        name: value
        for row in found.iter_rows(named=True)
        if row["length"] >= _MOST * (end_ns - start_ns)
        for name, value in (
            ("operation", row["operation"]),
            ("group", row["group"]),
            ("number", row["number"]),
            ("exchange_start_ns", row["start_ns"]),
            ("exchange_ns", row["length"]),
        )
    }


def _complete(measures: "Measures") -> bool:
    """Return whether every step and exchange of the whole run was recorded."""
    table, recording = measures.steps.table, measures.recording
    whole = bool(((table["content"] == tables.ALL_OF_IT) & table["recorded"]).all())
    return whole and recording.device is None and not any(measures.completeness[key] for key in _LACKING)
