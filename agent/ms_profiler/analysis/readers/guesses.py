"""Removal of steps that the job's process guessed before it trained anything."""

import polars as pl

from ms_profiler.store.format import GUESSES, TRAINING


def settled(steps: pl.DataFrame) -> pl.DataFrame:
    """Remove the guessed steps that a later training step on the same thread proves wrong.

    Args:
        steps: rows of `columns.slots.SLOTS`, of kind STEP; the rows of a thread are in the order of recording.
    """
    source = pl.col("category")
    guessed = source.is_in([int(guess) for guess in GUESSES])
    later = pl.when(~guessed).then(source).backward_fill().over("thread")
    return steps.filter(~(guessed & later.is_in([int(known) for known in TRAINING])).fill_null(False))
