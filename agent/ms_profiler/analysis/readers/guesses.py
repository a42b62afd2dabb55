"""Remove wrong steps: at first, the recorder in the job's process has to guess which calls are training steps."""

import polars as pl

from ms_profiler.store.format import GUESSES, TRAINING, StepSource


def settled(steps: pl.DataFrame) -> pl.DataFrame:
    """Remove the guessed steps that a later training step on the same thread proves wrong.

    A call of a MindSpore training cell is not a step if the time of an optimizer's step contains the call. In that
    case, several calls share one update of the weights.

    Args:
        steps: rows of `columns.slots.SLOTS`, of kind STEP; the rows of a thread are in the order of recording.
    """
    if steps.is_empty():
        return steps
    source = pl.col("category")
    guessed = source.is_in([int(guess) for guess in GUESSES])
    later = pl.when(~guessed).then(source).backward_fill().over("thread")
    wrong = guessed & later.is_in([int(known) for known in TRAINING])
    update = pl.when(source == int(StepSource.OPTIMIZER_CYCLE)).then("start_ns").backward_fill().over("thread")
    wrong |= (source == int(StepSource.TRAIN_CELL)) & (pl.col("start_ns") >= update)
    return steps.filter(~wrong.fill_null(False))
