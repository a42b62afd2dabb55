"""Events of a timeline as lines of JSON, the elements of a list.

Lines are built by Polars, 1.5 million a second; formatting them one by one in Python makes 0.5 million.
"""

import json
from collections.abc import Iterable
from typing import Any, BinaryIO, Final

import polars as pl

_FRACTIONS: Final = pl.Series([f".{number:03d}" for number in range(1000)])


def write(events: Iterable[pl.Series], last: str, stream: BinaryIO, *, pretty: bool) -> None:
    """Write events, each but the last one with a comma behind it.

    Args:
        events: JSON texts, in pieces.
        last: the one that has no comma.
        stream: where to.
        pretty: format them for people.
    """
    for piece in events:
        if pretty:
            stream.write("".join(_pretty(event) + ",\n" for event in piece).encode())
        elif len(piece):
            stream.write(piece.str.join(",\n").cast(pl.Binary).item())
            stream.write(b",\n")
    stream.write(f"{_pretty(last) if pretty else last}\n".encode())


def _pretty(event: str) -> str:
    return json.dumps(json.loads(event), ensure_ascii=False, indent=4)


def joined(*parts: Any) -> pl.Series:
    """Return texts put together from their parts, each a series, an expression or a literal."""
    return pl.select(pl.concat_str(parts)).to_series()


def quoted(texts: pl.Series) -> pl.Series:
    """Return texts as JSON; each different one is formatted once."""
    distinct = texts.unique().drop_nulls()
    formatted = pl.Series([json.dumps(text, ensure_ascii=False) for text in distinct], dtype=pl.String)
    return texts.replace_strict(distinct, formatted, default=None, return_dtype=pl.String)


def microseconds(nanoseconds: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return numbers of nanoseconds, none negative, as the two parts of microseconds with three decimals."""
    return (nanoseconds // 1000).cast(pl.String), _FRACTIONS.gather(nanoseconds % 1000)
