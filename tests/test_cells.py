import polars as pl
import pytest
from ms_profiler.analysis.readers import cells

SCHEMA = pl.Schema({"lane": pl.UInt32, "name": pl.String, "time": pl.Int64, "seen": pl.Boolean})


def test_rows_of_the_right_types_stay_as_they_are():
    rows = [(1, "a", -5, True), (None, None, None, None)]
    assert cells.typed(rows, SCHEMA).rows() == rows and cells.typed([], SCHEMA).schema == SCHEMA


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("7", "a", "-5", True), (7, "a", -5, True)),
        ((1.0, "a", 5.0, False), (1, "a", 5, False)),
        (("soon", 3, b"\xff", "yes"), (None, None, None, None)),
        ((-1, "a", 2**63, True), (None, "a", None, True)),
        ((2**32, "a", 1.5, True), (None, "a", None, True)),
        ((float("nan"), "a", float("inf"), True), (None, "a", None, True)),
    ],
)
def test_a_cell_of_another_type_is_read_where_it_means_the_same_and_null_otherwise(row, expected):
    whole = (2, "b", 9, True)
    assert cells.typed([whole, row, whole], SCHEMA).rows() == [whole, expected, whole]
