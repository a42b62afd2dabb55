"""The options of an analysis."""

from dataclasses import dataclass, field

from ms_profiler.analysis.driver.export import PATIENCE_S
from ms_profiler.analysis.metrics.utilization import Workload


@dataclass(frozen=True)
class Request:
    """What the user requested from an analysis.

    Attributes:
        steps: consecutive numbers of the steps to analyse; None for all.
        output: a directory that receives a directory for each result; None writes into the results.
        pretty: format JSON for people.
        packed: compress the timelines of ms-profiler's own recordings with gzip.
        forms: forms of the result in addition to the forms in the run's options: values of `export_type`, and
            "parquet".
        workload: the work of a step, as the user stated it, such as its floating-point operations.
        patience: seconds that CANN's msprof may take for each folder of aclprof.
    """

    steps: list[int] | None = None
    output: str | None = None
    pretty: bool = False
    packed: bool = False
    forms: frozenset[str] = frozenset()
    workload: Workload = field(default_factory=Workload)
    patience: float = PATIENCE_S
