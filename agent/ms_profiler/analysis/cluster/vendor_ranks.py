"""Find the results of ranks as msprof-analyze 26.2 does: one directory for each rank."""

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ms_profiler.analysis.cluster import storage
from ms_profiler.errors import StoreError
from ms_profiler.store import layout

#: number of directory levels below the given directory that are searched
DEPTH: Final = 10
_RANK: Final = re.compile(r"profiler_info_(\d+)\.json")
_DATABASE: Final = re.compile(r"ascend_(pytorch|mindspore)_profiler(_\d+)?\.db")
#: index of the time in a list of the words of a directory's name, which is ..._TIME_ascend_ms
_TIME: Final = -3


@dataclass
class Found:
    """The results of a job by rank.

    Attributes:
        ranks: rank -> directory. The order is that in which the file system lists the directories, because sums are
            added up in this order.
        remarks: a sentence for each result that is left out.
    """

    ranks: dict[int, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def find(directory: str, others: Collection[str] = ()) -> Found:
    """Return the newest result of each rank at or below a directory.

    Args:
        directory: the directory of a job.
        others: directories of results to leave out, because they are of other jobs or older.
    """
    passed = {_absolute(path) for path in others}
    suffixes = (layout.TORCH_SUFFIX, layout.SUFFIX)
    listing = storage.Listing(directory)
    base = listing.base
    places: dict[str, list[str]] = {suffix: [] for suffix in suffixes}
    listed = [base]
    for below, names, _ in listing.walk():
        if below.count(os.sep) - base.count(os.sep) >= DEPTH:
            names.clear()
        listed += [os.path.join(below, name) for name in names]
        names[:] = [name for name in names if not name.endswith(suffixes)]
    for path in listed:
        for suffix in suffixes:
            if path.endswith(suffix) and (not passed or _absolute(path) not in passed):
                places[suffix].append(path)
    found = Found()
    for suffix in suffixes:
        if places[suffix] and not found.ranks:
            _take(listing, places[suffix], found)
    return found


def _absolute(path: str) -> str:
    return path.rstrip("/") if storage.remote(path) else os.path.abspath(path.removeprefix("file://"))


def _take(listing: storage.Listing, paths: list[str], found: Found) -> None:
    by_rank: dict[int, list[str]] = {}
    without: list[str] = []
    for path in paths:
        try:
            rank = next((int(match[1]) for name in listing.names(path) if (match := _RANK.fullmatch(name))), None)
            texts = listing.names(layout.output_dir(path))
        except FileNotFoundError:
            without.append(path)
            continue
        except OSError as error:
            found.remarks.append(f"{path}: {error.strerror}.")
            continue
        if rank is None:
            found.remarks.append(f"{path} has no profiler_info_RANK.json, whose name contains the rank.")
        elif any(_DATABASE.fullmatch(name) for name in texts) and layout.STEP_TRACE_TIME not in texts:
            found.remarks.append(f"{path} holds a database in place of tables.")
        else:
            by_rank.setdefault(rank, []).append(path)
    if without:
        several = f" and {len(without) - 1} more" * (len(without) > 1)
        found.remarks.append(
            f"The files for other tools lack {min(without)}{several}: there are no tables. "
            "`ms-profiler analyse` makes them."
        )
    for rank, same in by_rank.items():
        found.ranks[rank] = max(same, key=_time)
        if len(same) > 1:
            others = ", ".join(os.path.basename(path) for path in same if path != found.ranks[rank])
            found.remarks.append(f"Rank {rank} has several results; the newest counts, and not {others}.")


def _time(path: str) -> int:
    parts = os.path.basename(path).split("_")
    return int(parts[_TIME]) if len(parts) >= -_TIME and parts[_TIME].isdecimal() else 0


def content(path: str, remarks: list[str]) -> dict[str, Any]:
    """Return the object in a JSON file; empty if the file is missing or cannot be read.

    Args:
        path: the path of the file.
        remarks: receives a sentence if the file cannot be read.
    """
    try:
        known = orjson.loads(storage.content(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, StoreError) as error:
        remarks.append(f"{path} cannot be read ({error}).")
        return {}
    if not isinstance(known, dict):
        remarks.append(f"{path} holds no object.")
        return {}
    return known
