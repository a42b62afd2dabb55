"""rank.json: the figures of one rank (its account) as a file, to compare ranks without reading their recordings."""

from dataclasses import fields
from typing import Any, Final

import orjson
import polars as pl

from ms_profiler.analysis.cluster import exchanged, rank_account
from ms_profiler.analysis.cluster.ending import Ending
from ms_profiler.analysis.cluster.rank_account import RankAccount

VERSION: Final = 9
_TABLES: Final = {"steps": rank_account.STEPS, "parts": rank_account.PARTS, "exchanges": exchanged.EXCHANGES}


def dump(account: RankAccount) -> bytes:
    """Return the account (the figures) of a rank as the content of rank.json.

    The content has the account's facts by name, and its tables as lists by column.

    Args:
        account: the account of a rank.
    """
    facts = {item.name: getattr(account, item.name) for item in fields(account)}
    for name in ("directory", "sent"):
        facts.pop(name)
    tables = {name: facts.pop(name).to_dict(as_series=False) for name in _TABLES}
    return orjson.dumps({"version": VERSION, **facts, **tables}) + b"\n"


def load(path: str, directory: str) -> RankAccount:
    """Read the account (the figures) of a rank from its rank.json.

    Args:
        path: the path of the file.
        directory: the result directory that the account describes.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not an account.
    """
    with open(path, "rb") as stream:
        content: Any = orjson.loads(stream.read())
    if not isinstance(content, dict) or content.pop("version", None) != VERSION:
        raise ValueError(f"it has no version {VERSION}")
    try:
        tables: dict[str, Any] = {name: pl.DataFrame(content.pop(name), schema) for name, schema in _TABLES.items()}
        how = content.pop("ending")
        found = None if how is None else Ending.of(how)
        return RankAccount(directory=directory, ending=found, **content, **tables)
    except (KeyError, TypeError, pl.exceptions.PolarsError) as error:
        raise ValueError(str(error)) from error
