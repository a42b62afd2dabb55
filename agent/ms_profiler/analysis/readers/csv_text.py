"""Read CSV files with Polars as text alone: Polars would unpack a file that begins like packed data."""

from typing import Any, Final

import polars as pl

#: first bytes of data that Polars unpacks: gzip, zlib (RFC 1950, for each level), and zstd
PACKED: Final = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x28\xb5\x2f\xfd")


def read(source: str | bytes, **options: Any) -> pl.DataFrame:
    """Return the table of a CSV file.

    Args:
        source: the path of the file, or its content.
        options: further arguments of `polars.read_csv`.

    Raises:
        PolarsError: the content is no CSV, or it begins like packed data.
        OSError: the file cannot be opened.
    """
    if isinstance(source, bytes):
        begin = source[:4]
    else:
        with open(source, "rb") as stream:
            begin = stream.read(4)
    if begin.startswith(PACKED):
        raise pl.exceptions.ComputeError("begins like packed data, and not like text")
    return pl.read_csv(source, **options)
