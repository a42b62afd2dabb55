"""The lanes of a timeline as tracks of Perfetto's trace.

A thread of the run is a thread there. Everything else is a named track: the steps beside the threads of their process,
kernels, scopes, communication and the overlap analysis in groups of their own. The messages are TrackDescriptor and its
parts in protos/perfetto/trace/track_event/track_descriptor.proto of github.com/google/perfetto; `uuid` is field 1.
"""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.columns.track_events import Track
from ms_profiler.analysis.columns.wire import integer, message, text
from ms_profiler.analysis.writers.lanes import STEPS, Lanes

#: numbers of tracks: those of processes and groups are their pids, further tracks for what crosses come last
_LANES: Final = 2**24
CROSSING: Final = 2**32
#: of the packets that describe tracks
SEQUENCE: Final = 1
_STATE_CLEARED: Final = 1
_EXPLICIT_CHILDREN: Final = 3
_EXPLICIT: Final = 1
_HIGHEST_RANK: Final = 2**31 - 1


class Tracks:
    """The tracks of a timeline.

    Attributes:
        all: tracks that events name by their place.
        descriptors: the packets that describe them.
    """

    def __init__(self, lanes: Lanes) -> None:
        """Make a track of every lane.

        Args:
            lanes: of the timeline.
        """
        self.all: list[Track] = []
        self.descriptors = _packet(0, integer(19, _EXPLICIT), integer(20, _EXPLICIT))
        self._places: dict[tuple[int, int], int] = {}
        self._lanes = lanes
        told: dict[tuple[int, int], dict[str, Any]] = {}
        for event in lanes.metadata():
            told.setdefault((event["pid"], event["tid"]), {})[event["name"]] = next(iter(event["args"].values()))
        hosts = set(lanes.threads["pid"])
        for (pid, _), words in told.items():
            if "process_name" in words:
                self._describe_process(pid, words, pid in hosts)
        for (pid, tid), words in told.items():
            if "thread_name" in words:
                self._describe_lane(pid, tid, words, pid in hosts and tid != STEPS)

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
            names: that `name` is a row of.
        """
        threads = counters.select(self.of_threads(counters).alias("place"), "name")
        different = threads.unique(maintain_order=True)
        first = len(self.all)
        for place, name in different.iter_rows():
            uuid = _LANES + len(self.all)
            parent = integer(5, self.all[place].uuid)
            self.descriptors += _packet(uuid, parent, text(2, names[name]), message(8))
            self.all.append(Track(uuid, b""))
        numbered = different.with_row_index("track", offset=first)
        return threads.join(numbered, on=["place", "name"], how="left", maintain_order="left")["track"]

    def add_curves(self, names: pl.Series, process: int) -> pl.Series:
        """Make a track of each name beside the lanes of a process, and return the place in `all` for each row.

        Args:
            names: of curves, a row each point.
            process: pid of the picture.
        """
        different = names.unique(maintain_order=True)
        first = len(self.all)
        for name in different:
            uuid = _LANES + len(self.all)
            self.descriptors += _packet(uuid, integer(5, process), text(2, name), message(8))
            self.all.append(Track(uuid, b""))
        places = pl.int_range(first, len(self.all), dtype=pl.UInt32, eager=True)
        return names.replace_strict(different, places, return_dtype=pl.UInt32)

    def _located(self, table: pl.DataFrame, lanes: pl.DataFrame, by: list[str]) -> pl.Series:
        places = [self._places[pid, tid] for pid, tid in lanes.select("pid", "tid").iter_rows()]
        found = COLUMNS.find(table.select(by), lanes.select(by))
        return pl.Series("place", places, dtype=pl.UInt32).gather(found)

    def _describe_process(self, pid: int, words: dict[str, Any], host: bool) -> None:
        name, rank = words["process_name"], integer(12, min(words["process_sort_index"], _HIGHEST_RANK))
        if host:
            self.descriptors += _packet(pid, message(3, integer(1, pid), text(6, name)), rank)
        else:
            self.descriptors += _packet(pid, text(2, name), integer(11, _EXPLICIT_CHILDREN), rank)

    def _describe_lane(self, pid: int, tid: int, words: dict[str, Any], thread: bool) -> None:
        uuid = _LANES + len(self.all)
        rank = integer(12, min(words["thread_sort_index"], _HIGHEST_RANK))
        # Perfetto adds the number of a thread to its name
        name = words["thread_name"].removesuffix(f" {tid}") if thread else words["thread_name"]
        under = integer(5, pid), text(2, name), rank
        if thread:
            self.descriptors += _packet(uuid, message(4, integer(1, pid), integer(2, tid), text(5, name)), rank)
            under = integer(5, uuid), text(2, name), rank
        else:
            self.descriptors += _packet(uuid, *under)
        self._places[pid, tid] = len(self.all)
        self.all.append(Track(uuid, b"".join(under)))


def _packet(uuid: int, *fields: bytes) -> bytes:
    cleared = integer(13, _STATE_CLEARED) if uuid == 0 else b""
    return message(1, integer(10, SEQUENCE), cleared, message(60, integer(1, uuid), *fields))
