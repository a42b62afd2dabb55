"""Read tapes. A tape is the list of autograd nodes of one backward pass, which the job stored before some passes.

`job.frameworks.autograd` stores them.
"""

from dataclasses import dataclass, replace

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import side_files
from ms_profiler.store import layout
from ms_profiler.store.format import Category


@dataclass(frozen=True, slots=True)
class Node:
    """A node that a backward pass runs.

    Attributes:
        name: the name of the operator that made the node.
        wanted: number of gradients that the node computes.
        summed: number of these gradients that are added to an existing gradient.
        module: path of the innermost `nn.Cell` in which the node was made; None outside of all cells.
    """

    name: str
    wanted: int
    summed: int
    module: str | None


@dataclass(frozen=True)
class Tape:
    """The nodes of one backward pass.

    Attributes:
        time_ns: when the pass began, ns.
        nodes: in the order in which they were made; the pass runs them in reverse.
        native_tid: number of the thread of the pass in the operating system; None if it was not recorded.
        threads: the threads of the recording with this number; the system may give a number again.
    """

    time_ns: int
    nodes: tuple[Node, ...]
    native_tid: int | None = None
    threads: frozenset[int] = frozenset()


def read(recording: tables.Recording, process: int) -> list[Tape]:
    """Return the tapes of a process, sorted by time.

    If the thread of a tape was not recorded, the tape belongs to the only thread with backward passes. If there are
    several such threads, it belongs to none.

    Args:
        recording: the run; its counts receive the names of unreadable files.
        process: pid of the process.
    """
    found = []
    for path in layout.tapes(layout.process_dir(recording.directory, process)):
        try:
            with open(path, "rb") as stream:
                tape = parse(stream.read())
            own = _threads(recording, process, tape.native_tid)
            found.append(replace(tape, time_ns=recording.clock.epoch_ns(tape.time_ns), threads=own))
        except side_files.DAMAGE as error:
            recording.counts.damaged_files.append((path.rpartition("/")[2], str(error) or "cannot be read"))
    return sorted(found, key=lambda tape: tape.time_ns)


def _threads(recording: tables.Recording, process: int, native_tid: int | None) -> frozenset[int]:
    """Return the threads of a process to which a tape with this number of a thread may belong."""
    if native_tid is not None:
        known = recording.threads.filter(pl.col("process") == process, pl.col("native_tid") == native_tid)
        return frozenset(known["thread"])
    backward = pl.col("category") == int(Category.BACKWARD)
    passed = recording.spans.filter(pl.col("process") == process, backward)["thread"].unique()
    return frozenset(passed if len(passed) == 1 else ())


def parse(content: bytes) -> Tape:
    """Parse one tape.

    Raises:
        ValueError: the tape is damaged.
    """
    known = side_files.parsed(content)
    # a call of a module made the nodes with numbers from `begin` to `end`. Of two calls with the same begin, the outer
    # call ends later, and is put first
    calls = sorted(((int(begin), int(end), str(name)) for begin, end, name in known["calls"]), key=_outer_first)
    nodes, around, place = [], list[tuple[int, str]](), 0
    for number, name, wanted, summed in known["nodes"]:
        while place < len(calls) and calls[place][0] < number:
            around.append(calls[place][1:])
            place += 1
        around = [each for each in around if each[0] > number]
        nodes.append(Node(str(name), int(wanted), int(summed), around[-1][1] if around else None))
    thread = known.get("thread")
    return Tape(int(known["time_ns"]), tuple(nodes), None if thread is None else int(thread))


def _outer_first(call: tuple[int, int, str]) -> tuple[int, int]:
    return call[0], -call[1]
