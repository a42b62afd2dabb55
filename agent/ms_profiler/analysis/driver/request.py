"""What is asked of an analysis, besides what is to be analysed."""

from dataclasses import dataclass, field

from ms_profiler.analysis.driver.export import PATIENCE_S
from ms_profiler.analysis.metrics.utilization import Workload


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Attributes:
        steps: consecutive step numbers to keep to; None for all.
        output: a directory that receives one of its own for each result, in place of these.
        pretty: format JSON for people.
        packed: write the timelines of our own recordings with gzip.
        forms: of the result besides those that the run itself asked for, as the option `export_type` has them, and
            "parquet".
        workload: what a step does, as far as the user knows.
        patience: seconds that CANN's msprof may take for each folder that aclprof recorded.
    """

    steps: list[int] | None = None
    output: str | None = None
    pretty: bool = False
    packed: bool = False
    forms: frozenset[str] = frozenset()
    workload: Workload = field(default_factory=Workload)
    patience: float = PATIENCE_S
