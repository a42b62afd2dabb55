"""Tell whether a job writes or reads checkpoints."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.store.format import Category

#: names of spans that save the state of training, or begin a save that another thread or process continues
SAVES: Final = ("torch.save", "distributed checkpoint: save", "safetensors: write", "save_checkpoint")
#: span that ends the saving of a file of PyTorch
CLOSING: Final = "torch.save, closing"
#: names of spans that load the state of training
LOADS: Final = (
    "torch.load",
    "safetensors: load",
    "distributed checkpoint: load",
    "load_checkpoint",
    "load_checkpoint_async",
    "load_distributed_checkpoint",
)
#: names of spans that are a part of loading
_LOADING: Final = (*LOADS, "load_param_into_net", "load MindIR", "wait for load_checkpoint_async")
#: one of writing and reading is not mentioned if it takes at most this part of their time
_LITTLE: Final = 0.2

WRITES: Final = "writes checkpoints"
READS: Final = "reads checkpoints"
BOTH: Final = "writes and reads checkpoints"


def does(spans: pl.DataFrame, names: pl.Series, steps: Steps) -> str:
    """Return whether the stepping thread mostly writes or reads checkpoints in the steps: `WRITES`, `READS` or `BOTH`.

    Args:
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        names: texts by row.
        steps: the steps in use. The first one does not count, because a job that continues reads a checkpoint in it.
    """
    files = stepping(spans, steps, Category.CHECKPOINT)
    files = files.filter(intervals.locate(files["start_ns"], steps.table[1:]).is_not_null())
    length = files["end_ns"] - files["start_ns"]
    reading = int(length.filter(names.gather(files["name"]).is_in(_LOADING)).sum())
    share = reading / max(int(length.sum()), 1)
    return READS if share >= 1 - _LITTLE else WRITES if share <= _LITTLE else BOTH
