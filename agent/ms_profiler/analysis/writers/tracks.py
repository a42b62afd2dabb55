"""The lanes of a timeline as tracks of Perfetto's trace.

A thread of the run is a thread of the trace. Everything else is a named track. The steps are beside the threads of
their process; kernels, scopes, communication and the overlap analysis form groups of their own. The messages are
TrackDescriptor and its parts in protos/perfetto/trace/track_event/track_descriptor.proto of github.com/google/perfetto;
`uuid` is field 1.
"""

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.columns.track_events import Track
from ms_profiler.analysis.columns.wire import integer, message, text
from ms_profiler.analysis.writers.lanes import HOST, STEPS, Lanes

#: numbers of tracks: those of processes and groups are their pids; further tracks for slices that cross come last
_LANES: Final = 2**24
CROSSING: Final = 2**32
#: number of the sequence of packets that describe tracks
SEQUENCE: Final = 1
_STATE_CLEARED: Final = 1
_EXPLICIT_CHILDREN: Final = 3
_EXPLICIT: Final = 1
_HIGHEST_RANK: Final = 2**31 - 1


@dataclass(frozen=True)
class RankTrack:
    """The process of a rank in a timeline of several ranks: all its lanes are tracks of that process.

    Attributes:
        uuid: added to the numbers of its tracks and flows.
        pid: the pid of the process, different from that of each other rank.
        name: the name of the process.
        labels: the labels beside the name.
        order: among the processes, from 0.
        ahead_ns: by how much the clock of the rank is ahead of that of the timeline.
    """

    uuid: int
    pid: int
    name: str
    labels: tuple[str, ...]
    order: int
    ahead_ns: int

    @property
    def first(self) -> bool:
        """Return whether it is the first process of the timeline."""
        return self.order == 0


class Tracks:
    """The tracks of a timeline.

    Attributes:
        all: tracks that events name by their place.
        descriptors: the packets that describe them.
    """

    def __init__(self, lanes: Lanes, rank: RankTrack | None = None) -> None:
        """Make a track of every lane.

        Args:
            lanes: the lanes of the timeline.
            rank: the rank of the events in a timeline of several ranks; None in a timeline of one.
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
        told: dict[tuple[int, int], dict[str, Any]] = {}
        for event in lanes.metadata():
            told.setdefault((event["pid"], event["tid"]), {})[event["name"]] = next(iter(event["args"].values()))
        hosts = set(lanes.threads["pid"])
        for (pid, _), words in told.items():
            if "process_name" in words:
                self._describe_process(pid, words, pid in hosts)
        for (pid, tid), words in told.items():
            if "thread_name" not in words:
                continue
            if rank:
                self._describe_rank_lane(pid, tid, words, told[pid, 0]["process_name"] if pid in hosts else "")
            else:
                self._describe_lane(pid, tid, words, integer(5, pid), pid if pid in hosts and tid != STEPS else None)

    def place(self, pid: int, tid: int) -> int:
        """Return the place in `all` of a lane."""
        return self._places[pid, tid]

    def of_threads(self, table: pl.DataFrame) -> pl.Series:
        """Return the place in `all` for each row of a table with `process` and `thread`."""
        return self._located(table, self._lanes.threads, ["process", "thread"])

    def of_kernels(self, table: pl.DataFrame) -> pl.Series:
        """Return the place in `all` for each row of a table with `process` and `lane`."""
        return self._located(table, self._lanes.kernels.select("process", "lane", "pid", "tid"), ["process", "lane"])

    def add_counters(self, counters: pl.DataFrame, names: pl.Series) -> pl.Series:
        """Make a track of each counter of a thread, and return the place in `all` for each row.

        Args:
            counters: `tables.COUNTERS`.
            names: the texts; `name` is a row of them.
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
        """Make a track of each name beside the lanes of a process, and return the place in `all` for each row.

        Args:
            names: the names of curves, a row each point.
            process: pid of the picture.
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
        """Describe a lane of a rank; threads of all its processes are threads of one process.

        Args:
            pid: the pid of the picture.
            tid: the tid of the picture.
            words: the words of the lane.
            host: name of the process whose thread it is; empty if it is no thread.
        """
        assert self._rank is not None
        if not host:
            self._describe_lane(pid, tid, words, integer(5, self._base + pid), None)
            return
        # two processes of which only numbers of threads are known may have the same
        thread = tid != STEPS and tid not in self._threads
        self._threads.add(tid)
        if pid != HOST:
            words = {**words, "thread_name": f"{words['thread_name'].removesuffix(f' {tid}')} ({host})"}
        self._describe_lane(pid, tid, words, integer(5, self._rank.uuid), self._rank.pid if thread else None)

    def _describe_lane(self, pid: int, tid: int, words: dict[str, Any], parent: bytes, process: int | None) -> None:
        """Describe a lane, as a thread of a process or as a track below another one."""
        uuid = self._base + _LANES + len(self.all)
        order = integer(12, min(words["thread_sort_index"], _HIGHEST_RANK))
        # Perfetto adds the number of a thread to its name
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
