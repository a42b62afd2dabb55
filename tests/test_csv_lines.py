"""A spreadsheet reads no name in a table as a formula, and numbers stay numbers."""

import io

import polars as pl
import pytest
from ms_profiler.analysis.writers import csv_lines, kernel_details  # noqa: F401 - the second one by itself is a circle


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3+cmd|' /C calc'!A0", "'-2+3+cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\tx", "'\tx"),
        ("-1.5", "-1.5"),
        ("+2e-3", "+2e-3"),
        ("1700000000000010.000\t", "1700000000000010.000\t"),
        ("aten::mm", "aten::mm"),
        ("N/A", "N/A"),
        ("", ""),
    ],
)
def test_a_name_is_no_formula(text, cell):
    stream = io.BytesIO()
    csv_lines.write_frame(pl.DataFrame({"name": [text], "other": [None], "count": [1]}), stream)
    assert stream.getvalue().decode() == f"name,other,count\n{cell or chr(34) * 2},,1\n"
    lines = io.BytesIO()
    csv_lines.write(lines, 1, {"name": [csv_lines.Cells(pl.Series([text])).at(pl.Series([0], dtype=pl.UInt32))]})
    assert lines.getvalue().decode() == f"{cell}\n"
