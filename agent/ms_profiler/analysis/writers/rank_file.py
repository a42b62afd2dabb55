"""rank.json: what one rank did in each step, and its exchanges with other ranks, to compare it with other ranks."""

from typing import BinaryIO

from ms_profiler.analysis.cluster import account_file, rank_account
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.store import layout


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return layout.RANK


def applies(measures: Measures) -> bool:
    """Return whether the run is one of several ranks."""
    return measures.recording.info.world_size > 1


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the file."""
    stream.write(account_file.dump(rank_account.account(measures)))
