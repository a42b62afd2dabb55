"""Find records that a process wrote and that no file has: a file is gone, empty or shorter than the process left it.

A process counts the records that it writes. When it ends, it writes the number to `process_info.json`, removes the
files that it did not use, and cuts the unused ends off the others. So the number shows for such a process whether
records are missing. A process that was killed leaves all its files, each with the size that it had from the begin.
"""

from collections.abc import Collection
from typing import Final

from ms_profiler import paths
from ms_profiler.store import format as fmt, layout
from ms_profiler.store.reader import Header, Missing, ProcessStore, ReadCounts, header, read_segment

#: A thread may lose its processor between making a file and setting its size. Meanwhile, another thread may make the
#: next file. If the job is killed then, the next file is at most this old, ns.
MAKING: Final = 100_000_000
#: The pure-Python recorder also counts a record that a thread has begun to write when the process ends.
_BEGUN: Final = "python"


def find(store: ProcessStore, events: int) -> Missing | None:
    """Return what is missing from the files of a process that does not run; None if nothing is.

    Args:
        store: the store of the process.
        events: the number of its records that were read, as `ReadCounts.events` counts them.
    """
    info = store.info
    if info.state != "ended":
        # when there was no room for a file, its number is missing, too
        found = [] if store.dropped or info.dropped else _lost_by_killed(store)
        return _missing(store, 0, found) if found else None
    lost = max(store.dropped, info.dropped) - max(store.dropped_limit, info.dropped_limit)
    fewer = info.records - events - max(lost, 0) - (info.threads if info.recorder == _BEGUN else 0)
    return _missing(store, fewer, _lost_by_ended(store)) if fewer > 0 else None


def _missing(store: ProcessStore, records: int, found: list[tuple[str, int, int]]) -> Missing:
    """Return the missing records. `found`: name, earliest time and latest time of each place where some are missing."""
    first = min((begin for _, begin, _ in found), default=0)
    last = 0 if any(not end for *_, end in found) else max((end for *_, end in found), default=0)
    folder = paths.basename(store.folder)
    return Missing(store.pid, records, first, last, tuple(f"{folder}/{what}" for what, *_ in found))


def _gone(segments: list[str], unused: Collection[str]) -> list[tuple[str, int, int]]:
    """Return the files that are not there or empty, among those with lower numbers than the newest file.

    Args:
        segments: the paths of the files, by number.
        unused: the paths of files that may be empty.
    """
    found, made_ns, following = [], 0, 0
    for path in segments:
        number = int(paths.basename(path)[:-4])
        found += [(f"{layout.segment_name(each)} is missing", made_ns, 0) for each in range(following, number)]
        following = number + 1
        head = header(path)
        if head is not None:
            made_ns = head.created_ns
        elif paths.getsize(path) == 0 and path not in unused:
            found.append((f"{layout.segment_name(number)} is empty", made_ns, 0))
    return found


def _lost_by_ended(store: ProcessStore) -> list[tuple[str, int, int]]:
    """Return where the missing records of a process that ended may have been."""
    segments = layout.segment_paths(store.folder)
    return [*_gone(segments, ()), *_shortened(store)]


def _shortened(store: ProcessStore) -> list[tuple[str, int, int]]:
    """Return the files that were shortened: they end before they are full, and their thread went on in another file."""
    parts = []
    for path, segment in store.segments(ReadCounts()):
        slots = list(fmt.SLOT.iter_unpack(segment.slots))
        threads = [slot[2] for slot in slots if slot[4] == fmt.Kind.THREAD]
        times = [slot[0] for slot in slots if 0 < slot[0] < fmt.LATEST_NS]
        head = header(path)
        if threads and times and head is not None:
            parts.append((path, threads[0], threads[-1], times[0], times[-1], _is_full(path, head)))
    found = []
    for path, _, thread, _, last, full in parts:
        later = [first for other, own, _, first, _, _ in parts if other != path and own == thread and first >= last]
        if later and not full:
            found.append((f"{paths.basename(path)} is cut", last, min(later)))
    return found


def _is_full(path: str, head: Header) -> bool:
    """Return whether a file has its first size."""
    return paths.getsize(path) >= fmt.HEADER_SIZE + head.capacity * fmt.SLOT_SIZE


def _being_made(store: ProcessStore, segments: list[str], heads: dict[str, Header]) -> list[str]:
    """Return the empty files that a killed process was making when it was killed; they have no record yet.

    Args:
        store: the store of the process.
        segments: the paths of the files, by number.
        heads: the headers of the files that have one.
    """
    empty = [path for path in segments if path not in heads and paths.getsize(path) == 0]
    if not empty:
        return []
    times = [slot[0] for _, segment in store.segments(ReadCounts()) for slot in fmt.SLOT.iter_unpack(segment.slots)]
    last = max((time for time in times if time < fmt.LATEST_NS), default=0)
    later = [min((head.created_ns for other, head in heads.items() if other > path), default=last) for path in empty]
    return [path for path, made_ns in zip(empty, later, strict=True) if made_ns >= last - MAKING]


def _lost_by_killed(store: ProcessStore) -> list[tuple[str, int, int]]:
    """Return the files of a killed process that are gone, empty or shorter than at first.

    A process that was killed while it ended may have removed or cut some files. It closes the control stream last.
    """
    segments = layout.segment_paths(store.folder)
    heads = [(path, head) for path in segments if (head := header(path)) is not None]
    short = [(path, head) for path, head in heads if not _is_full(path, head)]
    if any(head.control for _, head in short):
        return []
    found = _gone(segments, [*segments[-1:], *_being_made(store, segments, dict(heads))])
    for path, head in short:
        segment = read_segment(path, ReadCounts())
        times = [] if segment is None else [slot[0] for slot in fmt.SLOT.iter_unpack(segment.slots)]
        last = max((time for time in times if time < fmt.LATEST_NS), default=head.created_ns)
        found.append((f"{paths.basename(path)} is cut", last, 0))
    return found
