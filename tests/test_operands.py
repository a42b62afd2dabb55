"""Ties and shapes come from the arguments of operators, and from nothing else."""

import polars as pl
from ms_profiler.analysis.metrics import operands
from ms_profiler.store.format import OP_TIE_BITS, Category

SPANS = pl.DataFrame(
    {
        "category": [Category.OP, Category.OP, Category.OP, Category.MODULE],
        "arg": [6, 3 << OP_TIE_BITS | 7, 4 << OP_TIE_BITS, 5 << OP_TIE_BITS],
    },
    schema={"category": pl.UInt8, "arg": pl.UInt64},
)


def test_the_two_parts_of_an_argument():
    assert operands.shapes(SPANS).to_list() == [None, 3, 4, None]
    assert SPANS.select(operands.TIE).to_series().to_list()[:3] == [6, 7, 0]


def test_texts_change_their_numbers_and_ties_stay():
    args = SPANS["arg"].head(3)
    assert operands.texts(args).to_list() == [0, 3, 4]
    renamed = operands.renamed(args, pl.Series([0, 30, 40], dtype=pl.UInt32))
    assert renamed.to_list() == [6, 30 << OP_TIE_BITS | 7, 40 << OP_TIE_BITS]


def test_dimensions():
    assert operands.dimensions("4,8;8;;") == [[4, 8], [8], []]
    assert operands.dimensions("") == []
