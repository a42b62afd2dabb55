import polars as pl
import pytest
from ms_profiler.analysis.readers.decimals import nanoseconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1736408883704643.212\t", 1736408883704643212),
        ("1736408883704643", 1736408883704643000),
        (" 53.7 ", 53700),
        ("79089.52021875", 79089520),
        ("0.0005", 1),
        ("0.0004", 0),
        ("0.9996", 1000),
        ("-3.5", -3500),
        ("-0.25", -250),
        ("1e-05", 0),
        ("2.5E+2", 250000),
        ("9999999999999999", None),
        ("1e300", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        ("x", None),
        ("1.2.3", None),
        ("\u0661\u0662\u0663", None),
        ("\uff11\uff12.5", None),
        (None, None),
    ],
)
def test_microseconds_become_whole_nanoseconds(text, expected):
    frame = pl.DataFrame({"text": [text]}, schema={"text": pl.String})
    assert frame.select(nanoseconds(pl.col("text"))).to_series().to_list() == [expected]
