"""Convert decimal text in microseconds, such as "12.5", to whole nanoseconds without the rounding of doubles."""

from typing import Final

import polars as pl

#: latest time, us since the epoch, whose nanoseconds fit into 64 bits: about the year 2255
_LATEST: Final = 9_000_000_000_000_000
# not \d, because it also matches digits of other scripts, and Polars cannot parse those
_PLAIN: Final = r"^[0-9]{1,16}(\.[0-9]{1,3})?$"
_EXACT: Final = r"^\s*(-?[0-9]{1,16})(?:\.([0-9]*))?\s*$"


def nanoseconds(microseconds: pl.Expr) -> pl.Expr:
    """Convert decimal numbers of microseconds to nanoseconds; null for text that is no number.

    Microseconds since the epoch are about 1.7e15. There, neighbouring doubles differ by 0.25 us, so the conversion does
    not use doubles. The exception are numbers with an exponent, which are small.

    Args:
        microseconds: text, possibly with blanks around it.
    """
    return microseconds.map_batches(_nanoseconds, return_dtype=pl.Int64)


def _nanoseconds(texts: pl.Series) -> pl.Series:
    # a fast path for at most three decimals, which most numbers have; `_any` takes 18 times as long
    text = pl.col("text")
    plain = text.str.contains(_PLAIN)
    decimal = pl.when(plain).then(text).cast(pl.Decimal(30, 3), strict=False)
    usual = pl.when(decimal.abs() < _LATEST).then(decimal * 1000).cast(pl.Int64, strict=False)
    found = texts.to_frame("text").select("text", usual=usual)
    rest = found["usual"].is_null() & found["text"].is_not_null()
    if rest.any():
        found = found.with_columns(usual=pl.when(rest).then(_any(pl.when(rest).then("text"))).otherwise("usual"))
    return found["usual"].alias(texts.name)


def _any(microseconds: pl.Expr) -> pl.Expr:
    """Convert microseconds in any decimal form to nanoseconds."""
    digits = microseconds.str.extract(_EXACT, 2).fill_null("").str.pad_end(4, "0")
    text = microseconds.str.extract(_EXACT, 1)
    whole = pl.when(text.cast(pl.Int64).abs() < _LATEST).then(text.cast(pl.Int64))
    fraction = digits.str.slice(0, 3).cast(pl.Int64) + (digits.str.slice(3, 1) >= "5").cast(pl.Int64)
    exact = whole * 1000 + pl.when(text.str.starts_with("-")).then(-fraction).otherwise(fraction)
    double = microseconds.str.strip_chars().cast(pl.Float64, strict=False)
    small = pl.when(double.is_finite() & (double.abs() < 1e15)).then((double * 1000).round())
    # the integers come first, because they are exact and doubles are not
    return pl.coalesce(exact, small.cast(pl.Int64, strict=False))
