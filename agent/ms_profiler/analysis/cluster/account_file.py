"""The account of a rank as a file, so that what is said of all ranks needs none of their recordings: rank.json."""

from dataclasses import fields
from typing import Any, Final

import orjson
import polars as pl

from ms_profiler.analysis.cluster import exchanged, rank_account
from ms_profiler.analysis.cluster.rank_account import RankAccount

VERSION: Final = 1
_TABLES: Final = {"steps": rank_account.STEPS, "parts": rank_account.PARTS, "exchanges": exchanged.EXCHANGES}


def dump(account: RankAccount) -> bytes:
    """Return the content of the file: facts, and tables by column.

    Args:
        account: of a rank.
    """
    facts = {item.name: getattr(account, item.name) for item in fields(account)}
    facts.pop("directory")
    tables = {name: facts.pop(name).to_dict(as_series=False) for name in _TABLES}
    return orjson.dumps({"version": VERSION, **facts, **tables}) + b"\n"


def load(path: str, directory: str) -> RankAccount:
    """Read the account of a rank.

    Args:
        path: of the file.
        directory: the result that it is of.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not one of these.
    """
    with open(path, "rb") as stream:
        content: Any = orjson.loads(stream.read())
    if not isinstance(content, dict) or content.pop("version", None) != VERSION:
        raise ValueError(f"it has no version {VERSION}")
    try:
        tables: dict[str, Any] = {name: pl.DataFrame(content.pop(name), schema) for name, schema in _TABLES.items()}
        return RankAccount(directory=directory, **content, **tables)
    except (KeyError, TypeError, pl.exceptions.PolarsError) as error:
        raise ValueError(str(error)) from error
