"""minddata_pipeline_summary_{rank}.csv and .json: queues, CPU use and batches of the dataset pipeline, with remarks.

Keys and units are those of MindSpore's analyser; -1 means unknown. If the run has several pipelines, the file has the
pipeline with the most samples. Three values differ from MindSpore's:

- The mean CPU use leaves out the first sample of each window of samples: MindSpore takes this sample before it has
  measured anything.
- If no queue leads to a device, `per_batch_time` is the time from one batch to the next. MindSpore's value mixes these
  times with waits.
- ms-profiler finds the bottleneck from the queues alone. `metrics.pipelines` has the rules.
"""

import csv
import io
import json
import os
from dataclasses import dataclass
from typing import Any, BinaryIO

from ms_profiler.analysis.metrics import pipeline_hints
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.pipelines import Pipeline, average, empty, label, name, per_worker, percent, share
from ms_profiler.store import layout

UNKNOWN = -1


@dataclass(frozen=True)
class Form:
    """One of the two forms of the file.

    Args:
        suffix: "csv" or "json".
    """

    suffix: str

    def path(self, measures: Measures) -> str:
        """Return the path of the file, relative to the result directory."""
        return os.path.join(layout.OUTPUT, layout.pipeline_summary(measures.recording.info.rank, self.suffix))

    def applies(self, measures: Measures) -> bool:
        """Return whether any pipeline could be read."""
        return bool(measures.pipelines)

    def write(self, measures: Measures, stream: BinaryIO) -> None:
        """Write the file: as JSON an object, as CSV one line for each key, the key first."""
        content = summarise(measures.pipelines[0])
        if self.suffix == "json":
            stream.write(
                json.dumps(content, indent=4 if measures.request.pretty else None, ensure_ascii=False).encode() + b"\n"
            )
            return
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([key, *values] for key, values in content.items())
        stream.write(text.getvalue().encode())


CSV = Form("csv")
JSON = Form("json")


def summarise(pipeline: Pipeline) -> dict[str, list[Any]]:
    """Return the content of the file: key -> a list. It has a value for each operator, one value, or remarks.

    Args:
        pipeline: the pipeline.
    """
    operators = pipeline.operators
    parents = {child: operator.op_id for operator in operators for child in operator.children}
    averages = [average(operator) for operator in operators]
    content: dict[str, list[Any]] = {
        "op_ids": [operator.op_id for operator in operators],
        "op_names": [name(operator) for operator in operators],
        "pipeline_ops": [label(operator) for operator in operators],
        "num_workers": _known([operator.workers for operator in operators]),
        "queue_average_size": _known([None if mean is None else round(mean, 2) for mean in averages]),
        "queue_utilization_pct": _known([share(operator) for operator in operators]),
        "queue_empty_freq_pct": _known([empty(operator) for operator in operators]),
        "children_ids": [list(operator.children) for operator in operators],
        "parent_id": [parents.get(operator.op_id, UNKNOWN) for operator in operators],
        "avg_cpu_pct": _known([percent(operator) for operator in operators]),
        "per_pipeline_time": [_mean(pipeline.waits_ms)],
        "per_push_queue_time": [_mean(pipeline.pushes_ms)],
        "per_batch_time": [_mean(pipeline.periods_ms)],
        "avg_cpu_pct_per_worker": _known([per_worker(operator) for operator in operators]),
    }
    remarks = {
        "cpu_analysis_details": pipeline_hints.processors(pipeline),
        "queue_analysis_details": pipeline_hints.queues(pipeline),
    }
    finding = pipeline.slowest()
    if finding is not None and finding.slow is not None:
        remarks["bottleneck_warning"] = [label(finding.slow)]
        remarks["bottleneck_suggestion"] = [f"{finding.evidence}. {finding.action}"]
    return content | {key: lines for key, lines in remarks.items() if lines}


def _known(values: list[Any]) -> list[Any]:
    return [UNKNOWN if value is None else value for value in values]


def _mean(values: list[int]) -> float:
    """Return the mean of milliseconds, with three decimals; `UNKNOWN` without values."""
    return round(sum(values) / len(values), 3) if values else UNKNOWN
