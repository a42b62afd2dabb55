"""Read the records in the store of a run as a list of events."""

from dataclasses import dataclass

from ms_profiler.store import format as fmt, layout, reader
from ms_profiler.store.format import Flag, Kind


@dataclass(frozen=True)
class Event:
    """One span, instant or step.

    `process` is the name of the process, `thread` the thread's number in it. `start` and `end` are in ns.
    """

    process: str
    thread: int
    kind: Kind
    category: int
    name: str
    start: int
    end: int
    arg: int
    raised: bool


def events(result):
    """Return all events of a result directory, in the order in which they began."""
    found = []
    for folder in layout.process_dirs(str(result)):
        counts = reader.ReadCounts()
        store = reader.read_process(folder, counts)
        for _, segment in store.segments(counts):
            thread = 0
            for at in range(0, len(segment.slots), fmt.SLOT_SIZE):
                start, end, arg, name, kind, category, flags, _ = fmt.SLOT.unpack_from(segment.slots, at)
                if kind == Kind.THREAD:
                    thread = arg
                elif kind in (Kind.OPEN, Kind.SPAN, Kind.INSTANT, Kind.STEP):
                    text, raised = store.strings[name], bool(flags & Flag.RAISED)
                    found.append(Event(store.info.name, thread, Kind(kind), category, text, start, end, arg, raised))
        assert not counts.damaged, counts.describe()
    return sorted(found, key=lambda event: (event.start, -event.end))


def named(found, name):
    """Return the events with a name."""
    return [event for event in found if event.name == name]


def of(found, category):
    """Return how often each name occurs among the events of a category; steps do not count."""
    counts = {}
    for event in found:
        if event.category == category and event.kind != Kind.STEP:
            counts[event.name] = counts.get(event.name, 0) + 1
    return counts


def steps(found):
    """Return the steps among some events, in the same order."""
    return [event for event in found if event.kind == Kind.STEP]


def inside(event, outer):
    """Return whether an event lies within one of the other events, on the same thread of the same process."""
    return any(
        (each.process, each.thread) == (event.process, event.thread)
        and each is not event
        and each.start <= event.start
        and event.end <= each.end
        for each in outer
    )
