"""One timeline of several ranks, on the first rank's clock.

Each rank is a process of the timeline. A flow (an arrow in the timeline) joins the events of an exchange on all ranks.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO, Final

import polars as pl

from ms_profiler.analysis.cluster import exchanged, gathering, joined_exchanges, storage, whole_job
from ms_profiler.analysis.cluster.clock_offsets import Offset
from ms_profiler.analysis.cluster.rank_account import RankAccount
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.writers import core, perfetto_trace
from ms_profiler.analysis.writers.tracks import RankTrack
from ms_profiler.errors import MsProfilerError, StoreError, UsageError

if TYPE_CHECKING:
    from ms_profiler.analysis.metrics.measures import Measures

#: the ids of tracks (rows of the timeline) begin at `_STRIDE` for the first rank, at 2 * `_STRIDE` for the second, etc.
_STRIDE: Final = 2**40


@dataclass(frozen=True)
class MergedRank:
    """A rank in the timeline.

    Attributes:
        account: the figures of the rank (its account), with its exchanges.
        clock: the offset of the rank's clock from the timeline's clock.
    """

    account: RankAccount
    clock: Offset


@dataclass
class Merged:
    """The content of a timeline of several ranks.

    Attributes:
        path: the path of the file.
        ranks: the ranks in the timeline.
        flows: the number of exchanges that are joined by flows.
        exchanges: the exchanges of all ranks, joined or not.
        remarks: a sentence for each result that is left out.
    """

    path: str
    ranks: list[MergedRank] = field(default_factory=list)
    flows: int = 0
    exchanges: int = 0
    remarks: list[str] = field(default_factory=list)


def merge(
    paths: Sequence[str],
    output: str,
    ranks: Sequence[range] | None = None,
    steps: list[int] | None = None,
    wanted: str = "",
) -> Merged:
    """Write one timeline of several ranks.

    Args:
        paths: the paths that `engine.find` returned.
        output: the path of the file to write.
        ranks: the ranks to draw; None for all.
        steps: the consecutive numbers of the steps to draw; None for all.
        wanted: the path of a result whose job is drawn; by default the newest job, as `separate_jobs.chosen` finds it.

    Raises:
        StoreError: no result can be read.
        UsageError: no rank is among `ranks`, no rank has any of the steps, or no result is the wanted one.
        MsProfilerError: the file cannot be written.
    """
    found = Merged(output)
    accounts = whole_job.last_run(gathering.accounts(paths, found.remarks), found.remarks, wanted)
    chosen = [known for known in accounts if ranks is None or any(known.rank in each for each in ranks)]
    if not chosen:
        there = ", ".join(str(known.rank) for known in accounts[:8]) + ", ..." * (len(accounts) > 8)
        raise UsageError("None of the ranks has a result.", f"There are results of the ranks {there}.")
    marked = [replace(known, exchanges=exchanged.marked(known.exchanges)) for known in chosen]
    clocks = whole_job.clocks(dict(enumerate(marked)))
    exchanges = joined_exchanges.join(chosen, clocks)
    if steps is not None:
        exchanges = exchanges.filter(pl.col("step").is_in(steps))
    # if only one exchange of a flow is in the chosen steps, the flow joins nothing, so it is dropped
    exchanges = exchanges.with_columns(flow=pl.when(pl.len().over("flow") > 1).then("flow"))
    try:
        os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
        with core.replaced(output) as stream:
            _write(found, chosen, clocks, exchanges, steps, stream)
            if not found.ranks:
                raise StoreError(f"Nothing can be drawn: {found.remarks[-1]}", "Name other steps or ranks.")
    except OSError as error:
        raise MsProfilerError(
            f"Cannot write {output}: {error.strerror}.", "Name another file with --output."
        ) from error
    return found


def _write(
    found: Merged,
    chosen: list[RankAccount],
    clocks: dict[int, Offset],
    exchanges: pl.DataFrame,
    steps: list[int] | None,
    stream: BinaryIO,
) -> None:
    sequence: int | None = None
    taken: set[int] = set()
    flows = set()
    for place, known in enumerate(chosen):
        # a fetched result must stay until its timeline is written, because writing reads a long recording again
        with ExitStack() as fetched:
            try:
                here = fetched.enter_context(storage.local(known.directory, everything=True))
                measures = engine.measured(here, steps)
            except MsProfilerError as error:
                found.remarks.append(f"Rank {known.rank} is left out: {error.args[0]}")
                continue
            own = exchanges.filter(pl.col("place") == place)
            track = _track(known, measures, len(found.ranks), clocks[place], taken)
            sequence = perfetto_trace.write_rank(measures, track, own, stream, sequence)
        found.ranks.append(MergedRank(known, clocks[place]))
        found.exchanges += own.height
        flows |= set(own["flow"].drop_nulls())
    found.flows = len(flows)


def _track(known: RankAccount, measures: "Measures", order: int, clock: Offset, taken: set[int]) -> RankTrack:
    """Return the track of a rank. Its pid is that of the rank's process, or another one if an earlier rank has it."""
    pid = int(measures.steps.process)
    while pid in taken or pid <= 0:
        pid = 1 + (pid + 1) % 2**22
    taken.add(pid)
    labels = tuple(filter(None, (known.role, known.host, known.actor)))
    name = f"Rank {known.rank}"
    if known.role:
        name = f"{known.role} {known.actor[:8] if known.actor and known.world_size <= 1 else known.rank}"
    return RankTrack((order + 1) * _STRIDE, pid, name, labels, order, clock.offset_ns)
