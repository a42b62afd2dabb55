"""Give a child process a result of its own when the framework reports another rank for it than for its parent.

If the environment names no rank, a child begins to record into its parent's result. Later, the framework reports the
child's rank. A child with the same rank as its parent continues in the parent's result. So this result has all records
of that rank.
"""

import dataclasses
import os
from typing import Protocol

from ms_profiler import paths
from ms_profiler.job import kinship, process
from ms_profiler.job.recording import Recording


class Child(Protocol):
    """The session of a child process.

    Attributes:
        main: the recording that MS_PROFILER_OPTIONS requests.
        parent: the profiled process that made the result directory; None if this process made the directory.
        identity: rank and device of this process.
        owner: whether this process made the result directory.
        forked: whether this is a fork child.
        recordings: the open recordings.
    """

    main: Recording | None
    parent: kinship.Parent | None
    identity: process.Identity
    owner: bool
    forked: bool
    recordings: list[Recording]

    def stop(self, recording: Recording, end: str) -> None:
        """Stop this recording; `end` is the reason."""

    def take(self, recording: Recording) -> None:
        """Make `recording` the one that MS_PROFILER_OPTIONS requests."""

    def start(self, recording: Recording) -> bool:
        """Record into one more result directory; return whether that is possible."""


def settle(session: Child, rank: int, world_size: int) -> None:
    """Continue in a new result directory, if this process is a child and its rank is not the rank of its parent.

    Args:
        session: the session of this process.
        rank: the rank that the framework gave this process.
        world_size: number of ranks of the job.
    """
    main, parent = session.main, session.parent
    if main is None or main not in session.recordings or parent is None or session.forked or rank == parent.rank:
        return
    session.parent = None
    place = os.environ.get("LOCAL_RANK", "")
    local = int(place) if place.isdecimal() else rank
    own = session.identity._replace(
        rank=rank, local_rank=local, device_id=local, world_size=world_size, job=parent.job, ranked=True, known=True
    )
    session.stop(main, f"became rank {rank} of {world_size}")
    if not own.selected(main.options.ranks):
        return
    beside = dataclasses.replace(main.options, output_path=paths.dirname(parent.directory))
    recording = Recording(beside, list(main.info.messages), own)
    if recording.make(os.sep):
        session.identity, session.owner = own, True
        session.take(recording)
        if session.start(recording):
            kinship.announce(recording.result)
