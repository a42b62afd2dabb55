"""Convert a database's cells to typed columns, because SQLite accepts any text in a column of numbers."""

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

_BITS: Final = 63


def typed(rows: Sequence[tuple[Any, ...]], schema: pl.Schema) -> pl.DataFrame:
    """Return rows as a table, with null for values of a wrong type.

    Args:
        rows: cells in the order of the schema.
        schema: a schema of whole numbers, texts and booleans.
    """
    try:
        return pl.DataFrame(rows, schema=schema, orient="row")
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        columns = zip(*rows, strict=True)
        return pl.DataFrame(
            {
                name: pl.Series([_cell(value, kind) for value in column], dtype=kind)
                for (name, kind), column in zip(schema.items(), columns, strict=True)
            }
        )


def _cell(value: Any, kind: pl.DataType) -> Any:
    if kind == pl.String:
        return value if isinstance(value, str) else None
    if kind == pl.Boolean:
        return value if isinstance(value, bool) else None
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    least, most = (0, 2**32) if kind == pl.UInt32 else (-(2**_BITS), 2**_BITS)
    return value if isinstance(value, int) and least <= value < most else None
