"""The lanes of a timeline as tracks of Perfetto's trace.

A lane is a row of the timeline. A thread of the run is a thread of the trace. Every other lane is a named track. The
steps are beside the threads of their process. Kernels, scopes (prefixes of kernels' names), communication and the
overlap analysis form separate groups. Field numbers are those of TrackDescriptor in
protos/perfetto/trace/track_event/track_descriptor.proto of github.com/google/perfetto; for example, field 1 is `uuid`.
"""

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.columns.track_events import Track
from ms_profiler.analysis.columns.wire import integer, message, text
from ms_profiler.analysis.writers.lanes import HOST, STEPS, Lanes

#: smallest uuid of a track for a lane. The uuid of a process, or of a group of lanes, is its pid in the timeline
_LANES: Final = 2**24
#: If slices of a lane cross, some of them go to further tracks. This is the smallest uuid of such a track.
CROSSING: Final = 2**32
#: id of the packet sequence that describes the tracks
SEQUENCE: Final = 1
_STATE_CLEARED: Final = 1
_EXPLICIT_CHILDREN: Final = 3
_EXPLICIT: Final = 1
_HIGHEST_RANK: Final = 2**31 - 1


@dataclass(frozen=True)
class RankTrack:
    """The process of a rank in a timeline of several ranks; all lanes of the rank are tracks of this process.

    Attributes:
        uuid: offset that is added to the numbers of the rank's tracks and flows, so that ranks share no number.
        pid: the pid of the process in the timeline, different for each rank.
        name: the name of the process.
        labels: the labels beside the name.
        order: position of the process among the processes of the timeline, from 0.
        ahead_ns: the nanoseconds by which the clock of the rank is ahead of the timeline's clock.
    """

    uuid: int
    pid: int
    name: str
    labels: tuple[str, ...]
    order: int
    ahead_ns: int

    @property
    def first(self) -> bool:
        """Return whether the rank is the first process of the timeline."""
        return self.order == 0


class Tracks:
    """The tracks of a timeline.

    Attributes:
        all: the tracks. The index of a track in this list is called its place; events refer to a track by its place.
        descriptors: the packets that describe the tracks.
    """

    def __init__(self, lanes: Lanes, rank: RankTrack | None = None) -> None:
        """Make a track for every lane.

        Args:
            lanes: the lanes of the timeline.
            rank: the rank of the events in a timeline of several ranks; None in the timeline of a single rank.
        """
        self.all: list[Track] = []
        self.descriptors = (
            b"" if rank and not rank.first else _packet(0, integer(19, _EXPLICIT), integer(20, _EXPLICIT))
        )
        self._places: dict[tuple[int, int], int] = {}
        self._lanes = lanes
        self._rank = rank
        self._threads: set[int] = set()
        self._base = rank.uuid if rank else 0
        if rank:
            self._describe_rank(rank)
        descriptions: dict[tuple[int, int], dict[str, Any]] = {}
        for event in lanes.metadata():
            descriptions.setdefault((event["pid"], event["tid"]), {})[event["name"]] = next(
                iter(event["args"].values())
            )
        hosts = set(lanes.threads["pid"])
        for (pid, _), words in descriptions.items():
            if "process_name" in words:
                self._describe_process(pid, words, pid in hosts)
        for (pid, tid), words in descriptions.items():
            if "thread_name" not in words:
                continue
            if rank:
                self._describe_rank_lane(pid, tid, words, descriptions[pid, 0]["process_name"] if pid in hosts else "")
            else:
                self._describe_lane(pid, tid, words, integer(5, pid), pid if pid in hosts and tid != STEPS else None)

    def place(self, pid: int, tid: int) -> int:
        """Return the place of a lane in `all`, from the lane's pid and tid in the timeline."""
        return self._places[pid, tid]

    def of_threads(self, table: pl.DataFrame) -> pl.Series:
        """Return the place in `all` for each row of a table with `process` and `thread`."""
        return self._located(table, self._lanes.threads, ["process", "thread"])

    def of_kernels(self, table: pl.DataFrame) -> pl.Series:
        """Return the place in `all` for each row of a table with `process` and `lane`."""
        return self._located(table, self._lanes.kernels.select("process", "lane", "pid", "tid"), ["process", "lane"])

    def add_counters(self, counters: pl.DataFrame, names: pl.Series) -> pl.Series:
        """Make a track for each counter of each thread. Return, for each value, the place of its track in `all`.

        Args:
            counters: the values of all counters, as `tables.COUNTERS`.
            names: `Recording.names`; the column `name` of `counters` has indices into it.
        """
        threads = counters.select(self.of_threads(counters).alias("place"), "name")
        different = threads.unique(maintain_order=True)
        first = len(self.all)
        for place, name in different.iter_rows():
            uuid = self._base + _LANES + len(self.all)
            parent = integer(5, self.all[place].uuid)
            self.descriptors += _packet(uuid, parent, text(2, names[name]), message(8))
            self.all.append(Track(uuid, b""))
        numbered = different.with_row_index("track", offset=first)
        return threads.join(numbered, on=["place", "name"], how="left", maintain_order="left")["track"]

    def add_curves(self, names: pl.Series, process: int) -> pl.Series:
        """Make a track for each curve, beside the lanes of a process. Return, for each point, the place of its track.

        Args:
            names: the points of all curves; for each point, the name of its curve.
            process: the pid, in the timeline, of the process beside which the curves are shown.
        """
        different = names.unique(maintain_order=True)
        first = len(self.all)
        for name in different:
            uuid = self._base + _LANES + len(self.all)
            self.descriptors += _packet(uuid, integer(5, self._base + process), text(2, name), message(8))
            self.all.append(Track(uuid, b""))
        places = pl.int_range(first, len(self.all), dtype=pl.UInt32, eager=True)
        return names.replace_strict(different, places, return_dtype=pl.UInt32)

    def _located(self, table: pl.DataFrame, lanes: pl.DataFrame, by: list[str]) -> pl.Series:
        places = [self._places[pid, tid] for pid, tid in lanes.select("pid", "tid").iter_rows()]
        found = COLUMNS.find(table.select(by), lanes.select(by))
        return pl.Series("place", places, dtype=pl.UInt32).gather(found)

    def _describe_rank(self, rank: RankTrack) -> None:
        labels = [text(8, label) for label in rank.labels]
        process = message(3, integer(1, rank.pid), text(6, rank.name), *labels)
        self.descriptors += _packet(rank.uuid, process, integer(11, _EXPLICIT_CHILDREN), integer(12, rank.order))

    def _describe_process(self, pid: int, words: dict[str, Any], host: bool) -> None:
        name, order = words["process_name"], integer(12, min(words["process_sort_index"], _HIGHEST_RANK))
        uuid = self._base + pid
        if host and not self._rank:
            self.descriptors += _packet(uuid, message(3, integer(1, pid), text(6, name)), order)
        elif not host:
            under = integer(5, self._rank.uuid) if self._rank else b""
            self.descriptors += _packet(uuid, under, text(2, name), integer(11, _EXPLICIT_CHILDREN), order)

    def _describe_rank_lane(self, pid: int, tid: int, words: dict[str, Any], host: str) -> None:
        """Describe a lane of a rank. In the timeline, the threads of all processes of a rank belong to one process.

        Args:
            pid: the pid of the lane in the timeline.
            tid: the tid of the lane in the timeline.
            words: the names and the order of the lane, as `Lanes.metadata` has them.
            host: the name of the process to which the thread belongs; empty if the lane is not a thread.
        """
        assert self._rank is not None
        if not host:
            self._describe_lane(pid, tid, words, integer(5, self._base + pid), None)
            return
        # if native ids are unknown, threads of two processes may have the same tid. Then only the first of these
        # threads becomes a thread of the trace
        thread = tid != STEPS and tid not in self._threads
        self._threads.add(tid)
        if pid != HOST:
            words = {**words, "thread_name": f"{words['thread_name'].removesuffix(f' {tid}')} ({host})"}
        self._describe_lane(pid, tid, words, integer(5, self._rank.uuid), self._rank.pid if thread else None)

    def _describe_lane(self, pid: int, tid: int, words: dict[str, Any], parent: bytes, process: int | None) -> None:
        """Describe a lane: as a thread of `process`, or, if `process` is None, as a track below `parent`."""
        uuid = self._base + _LANES + len(self.all)
        order = integer(12, min(words["thread_sort_index"], _HIGHEST_RANK))
        # Perfetto adds the number of a thread to the thread's name, so the name itself must not end with this number
        name = words["thread_name"].removesuffix(f" {tid}") if process is not None else words["thread_name"]
        under = parent, text(2, name), order
        if process is not None:
            self.descriptors += _packet(uuid, message(4, integer(1, process), integer(2, tid), text(5, name)), order)
            under = integer(5, uuid), text(2, name), order
        else:
            self.descriptors += _packet(uuid, *under)
        self._places[pid, tid] = len(self.all)
        self.all.append(Track(uuid, b"".join(under)))


def _packet(uuid: int, *fields: bytes) -> bytes:
    cleared = integer(13, _STATE_CLEARED) if uuid == 0 else b""
    return message(1, integer(10, SEQUENCE), cleared, message(60, integer(1, uuid), *fields))
