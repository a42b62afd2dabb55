"""Decode the argument of an operator: its autograd number, and the shapes of its inputs."""

from typing import Final

import polars as pl

from ms_profiler.store.format import OP_TIE_BITS, Category

_SHAPES: Final = 1 << OP_TIE_BITS
#: the sequence number of autograd that an operator shares with its gradient (`store.format.Category`); 0 for none
TIE: Final = pl.col("arg") % _SHAPES
#: whether a span is an operator with known shapes of its inputs
SHAPED: Final = (pl.col("category") == Category.OP) & (pl.col("arg") >= _SHAPES)


def shapes(spans: pl.DataFrame) -> pl.Series:
    """Return `shapes`: the row in the recording's names that has the shapes of each span's inputs; null if unknown.

    Args:
        spans: table of spans, with the columns `category` and `arg`.
    """
    row = (pl.col("arg") // _SHAPES).cast(pl.UInt32)
    return spans.select(pl.when(SHAPED).then(row).alias("shapes")).to_series()


def renamed(args: pl.Series, rows: pl.Series) -> pl.Series:
    """Return the arguments of operators, with new numbers for the texts that describe their shapes.

    Args:
        args: the arguments of operators; `store.format.Category.OP` describes their encoding.
        rows: for each argument, the new number of its text.
    """
    return (rows.cast(pl.UInt64) * _SHAPES + args % _SHAPES).alias(args.name)


def with_shapes(tie: str, known: str) -> pl.Expr:
    """Combine the ties (numbers of autograd) of one column of arguments with the shapes of another column.

    Where `known` is null, the result has no shapes.

    Args:
        tie: name of the column of arguments with ties only.
        known: name of the column of arguments whose shapes are used.
    """
    shapes = pl.col(known) // _SHAPES * _SHAPES
    return pl.col(tie) + shapes.fill_null(0)


def texts(args: pl.Series) -> pl.Series:
    """Return, for each argument, the number of the text that describes the shapes; 0 if the argument has no shapes."""
    return (args // _SHAPES).cast(pl.UInt32)


def dimensions(text: str) -> list[list[int]]:
    """Return the dimensions of each input; an empty list for a scalar, or for an input that is no tensor.

    Args:
        text: the shapes as in the store, for example "4,8;8;;".
    """
    return [[int(size) for size in part.split(",") if size] for part in text.split(";")[:-1]]
