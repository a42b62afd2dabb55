"""Remarks about the operators of a dataset pipeline, by the rules and thresholds of MindSpore's own analyser."""

from typing import Final

from ms_profiler.analysis.metrics.pipelines import BUSY, HALF, LAZY, Pipeline, empty, label, name, per_worker, share
from ms_profiler.analysis.readers.pipeline_samples import Operator

#: operators that run in their consumer's thread, or in a single separate thread: their number of workers cannot be set
_SINGLE: Final = ("Barrier", "Concat", "EpochCtrl", "Rename", "Repeat", "Shuffle", "Skip", "Take", "Zip")
#: names of the operator that passes batches to a device; the name depends on MindSpore's release
_DEVICE: Final = ("DeviceQueue", "DataQueue")
#: a device starves (lacks input) if its input queue is empty in more than this percentage of samples
_STARVED: Final = 60.0
#: an operator falls behind if (fill of its input queue) - (fill of its output queue) is above this, in percent
_DIFFERENCE: Final = 50.0


def processors(pipeline: Pipeline) -> list[str]:
    """Return remarks on operators whose workers are busy, or that have several idle workers."""
    remarks = []
    for operator in _chosen(pipeline):
        used, workers = per_worker(operator), operator.workers or 0
        if used is None:
            continue
        if used > BUSY:
            remarks.append(
                f"{label(operator)} uses {used}% of a processor per worker: num_parallel_workers>{workers} may help."
            )
        elif used < LAZY and workers > 1:
            remarks.append(
                f"{label(operator)} uses {used}% of a processor per worker: num_parallel_workers={workers} may be more "
                "than it needs."
            )
    return remarks


def queues(pipeline: Pipeline) -> list[str]:
    """Return remarks on sources that are slow, queues that starve a device, and operators that fall behind."""
    remarks = []
    for operator in _chosen(pipeline):
        if name(operator) == "Batch":
            continue
        before = next(iter(pipeline.inputs(operator)), None)
        behind = share(operator)
        if before is None:
            if behind is not None and behind <= HALF:
                remarks.append(
                    f"The queue of the source {label(operator)} is {behind}% full: "
                    f"num_parallel_workers>{operator.workers} may speed up its input."
                )
        elif name(operator) in _DEVICE:
            starved = empty(before)
            if starved is not None and starved > _STARVED:
                remarks.append(
                    f"The input queue of {label(operator)} is empty in {starved}% of the samples: the device waits for "
                    "data then."
                )
        else:
            ahead = share(before)
            if ahead is not None and behind is not None and ahead - behind > _DIFFERENCE:
                remarks.append(
                    f"The input queue of {label(operator)} is {ahead}% full and its output queue {behind}%: "
                    f"{label(before)} gives more than {label(operator)} can take. If {label(operator)} uses little "
                    "of a processor, raise prefetch_size or num_parallel_workers."
                )
    return remarks


def _chosen(pipeline: Pipeline) -> list[Operator]:
    return [operator for operator in pipeline.operators if name(operator) not in _SINGLE]
