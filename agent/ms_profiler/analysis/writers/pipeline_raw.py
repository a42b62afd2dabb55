"""minddata_pipeline_raw_{rank}.csv: the samples of the output queue of each operator of the dataset pipeline.

Columns are those of MindSpore's analyser. If the run has several pipelines, the file has the pipeline with the most
samples. The file leaves out operators without a queue, except for the root, which yields the batches. If an operator is
left out, its parent gets its children.
"""

import csv
import io
import os
from collections import deque
from typing import BinaryIO, Final

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.pipelines import average
from ms_profiler.analysis.readers.pipeline_samples import Operator
from ms_profiler.store import layout

_COLUMNS: Final = (
    "op_id",
    "op_type",
    "num_workers",
    "output_queue_size",
    "output_queue_average_size",
    "output_queue_length",
    "output_queue_usage_rate",
    "sample_interval",
    "parent_id",
    "children_id",
)


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.pipeline_raw(measures.recording.info.rank))


def applies(measures: Measures) -> bool:
    """Return whether any pipeline could be read."""
    return bool(measures.pipelines)


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the table, from the root of the pipeline on, level by level; unknown cells are empty."""
    pipeline = measures.pipelines[0]
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_COLUMNS)
    waiting: deque[tuple[Operator, int | None]] = deque([(pipeline.operators[0], None)])
    while waiting:
        operator, parent = waiting.popleft()
        children = pipeline.inputs(operator)
        mean = average(operator)
        table.writerow(
            [
                operator.op_id,
                operator.kind,
                operator.workers,
                None if operator.length is None else operator.sizes,
                mean,
                operator.length,
                None if mean is None or not operator.length else mean / operator.length,
                pipeline.interval_ms,
                parent,
                [child.op_id for child in children] or None,
            ]
        )
        waiting.extend((child, operator.op_id) for child in children)
    stream.write(text.getvalue().encode())
