"""Read tapes. A tape is the list of autograd nodes of one backward pass, which the job stored before some passes.

`job.frameworks.autograd` stores them.
"""

from dataclasses import dataclass, replace

from ms_profiler.analysis.model.clock import Clock
from ms_profiler.analysis.readers import side_files
from ms_profiler.store import layout
from ms_profiler.store.reader import ReadCounts


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
    """

    time_ns: int
    nodes: tuple[Node, ...]


def read(folder: str, clock: Clock, counts: ReadCounts) -> list[Tape]:
    """Return the tapes of a process, sorted by time.

    Args:
        folder: the folder of the process.
        clock: the clock of the recording.
        counts: receives the names of unreadable files.
    """
    found = []
    for path in layout.tapes(folder):
        try:
            with open(path, "rb") as stream:
                tape = parse(stream.read())
            found.append(replace(tape, time_ns=clock.epoch_ns(tape.time_ns)))
        except side_files.DAMAGE as error:
            counts.damaged_files.append((path.rpartition("/")[2], str(error) or "cannot be read"))
    return sorted(found, key=lambda tape: tape.time_ns)


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
    return Tape(int(known["time_ns"]), tuple(nodes))


def _outer_first(call: tuple[int, int, str]) -> tuple[int, int]:
    return call[0], -call[1]
