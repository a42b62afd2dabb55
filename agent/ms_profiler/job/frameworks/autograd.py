"""Read the nodes of autograd's graph in a few steps, and find the module in which each node was made.

The work of a backward pass runs outside of all calls of modules. Autograd numbers the nodes of its graph in the order
in which it makes them. A backward pass runs the nodes that lead to the requested gradients, in reverse order.

At the begin and end of each module's call, ms-profiler reads the number of the newest node. The nodes with numbers in
between belong to the module. Right before a backward pass, ms-profiler reads the graph of this pass. It takes 2 to 4 us
to read a node. So ms-profiler reads graphs only in the second step, the 9th, the 65th and so on. It registers no hook
with a node, and keeps no node alive.
"""

import threading
from collections.abc import Callable
from threading import get_native_id
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import side_file
from ms_profiler.job.sources import NEVER
from ms_profiler.store import layout

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: ms-profiler reads autograd's graph after FIRST steps, then after FIRST * FACTOR steps, and so on: 1, 8, 64
FIRST, FACTOR = 1, 8
#: Two limits: the largest number of nodes in a graph that is read, and the largest number of noted calls of modules.
#: When more calls of modules are noted, ms-profiler stops reading graphs after the next backward pass.
MOST = 20_000
#: largest number of backward passes whose graph is read in one step
PASSES = 64
#: number that autograd gives every leaf; a leaf is a node that receives a gradient and computes none
LEAF = 2**64 - 1

#: A node of autograd's graph: its number, its name, and the receiver of each gradient that the node computes. A
#: receiver is (key of another node, index of an output of that node), or None if no node receives the gradient.
Node = tuple[int, str, list[tuple[int, int] | None]]
#: a node as autograd describes it: its number, its name, and the receivers of its gradients: (node, index of output)
Parts = tuple[int, str, tuple[tuple[Any, int], ...]]
#: A node that a backward pass runs: its number, its name, and two counts. The first count is the number of requested
#: gradients that the node computes. The second count says how many of them autograd adds to an existing gradient.
Made = tuple[int, str, int, int]


class Looking(threading.local):
    """The object that reads autograd's nodes on this thread, a `Tape`; None while no nodes are read."""

    tape: Any = None


looking = Looking()


class Tape:
    """Read autograd's graph in some steps.

    Args:
        host: the session, which stores the nodes.
        watch: a function that switches on or off whether every call of a module is reported to this object.
    """

    def __init__(self, host: "Host", watch: Callable[[bool], None]) -> None:
        self.host = host
        #: a tuple for each noted call of a module: (number of autograd's newest node at the begin of the call, number
        #: of the newest node at the end, path of the module)
        self.calls: list[tuple[int, int, str]] = []
        self._watch = watch
        self._next = FIRST
        self._stored = 0
        #: _late: a backward pass ran nodes that autograd had made before ms-profiler began to read graphs. _longer:
        #: because of such a pass, ms-profiler also reads the graphs of the next step.
        self._late = self._longer = False

    def stepped(self, count: int) -> tuple[int, bool]:
        """Begin or stop to read graphs, between two steps; `host.Host.at_step` describes argument and result."""
        if self._late and not self._longer and looking.tape is self and self.useful():
            self._longer = True
            return count + 1, False
        self._end()
        if count < self._next or not self.useful():
            # NEVER does not mean that this function is never called again. The session calls it when it begins to
            # sample steps again, and when a new recording begins.
            if not self.host.steps.marks.sampled or not self.host.wants("CPU"):
                return NEVER, False
            # check again at growing intervals; while the schedule pauses recording, check at each step
            return max(self._next, 2 * count if self.host.steps.recording else count + 1), False
        self._next, self._stored = max(count, FIRST) * FACTOR, 0
        self._late = self._longer = False
        looking.tape = self
        self._watch(True)
        self.begin()
        return count + 1, False

    def begin(self) -> None:
        """Prepare the framework, so that autograd's graph can be read."""

    def _end(self) -> None:
        if looking.tape is not None:
            looking.tape = None
            self._watch(False)
            self.forget()

    def useful(self) -> bool:
        """Return whether calls of modules and operators are recorded now; without them, nodes are of no use."""
        steps = self.host.steps
        return steps.recording and steps.marks.sampled and self.host.wants("CPU")

    def forget(self) -> None:
        """Forget the noted calls of modules."""
        self.calls = []

    def number(self) -> int | None:
        """Return autograd's number of the newest node; None while gradients are off or no graph is read."""
        raise NotImplementedError

    def write_nodes(self, nodes: list[Made]) -> None:
        """Write the nodes of a backward pass to a file of the result.

        Args:
            nodes: the nodes that the backward pass runs, as `run` returns them.
        """
        home = self.host.home
        if not nodes or home is None:
            return
        content = {
            "time_ns": self.host.recorder.now(),
            "thread": get_native_id(),
            "nodes": nodes,
            "calls": self.calls,
        }
        side_file.write(self.host, layout.tape_path(home.folder, len(layout.tapes(home.folder))), content)
        self._stored += 1
        if self._stored == PASSES or len(self.calls) > MOST:  # do not wait for the end of the step: it may never end
            self._end()


def parts(node: Any) -> Parts:
    """Return number, name and gradient receivers of a node of autograd's graph; the framework defines its class."""
    return node._sequence_nr(), node.name(), node.next_functions


def read(waiting: list[Any], key: Callable[[Any], int], parts: Callable[[Any], Parts] = parts) -> dict[int, Node]:
    """Return the nodes of autograd's graph by key; empty if the graph has more than `MOST` nodes.

    Args:
        waiting: the nodes at which the backward pass begins; this function changes the list.
        key: a function that returns the key of a node; no other living node has this key.
        parts: a function that returns number, name and gradient receivers of a node.
    """
    found: dict[int, Node] = {}
    held = []  # keeps the nodes alive, because a key is unique only among living nodes
    while waiting:
        node = waiting.pop()
        known = key(node)
        if known in found:
            continue
        number, name, following = parts(node)
        to = [None if each is None else (key(each), output) for each, output in following]
        found[known] = number, name, to
        if len(found) > MOST:
            return {}
        waiting += (rest := [each for each, _ in following if each is not None])
        held += rest
    return found


def run(nodes: dict[int, Node], leaves: Callable[[int], bool]) -> list[Made]:
    """Return the nodes that the backward pass runs, in the order in which autograd made them.

    Args:
        nodes: all nodes of the graph, by key.
        leaves: a function that gets the key of a leaf, and returns whether the gradient of this leaf is requested.
    """
    wanted = {key for key, (number, _, _) in nodes.items() if number >= LEAF and leaves(key)}
    ordered = sorted(((node, key) for key, node in nodes.items() if node[0] < LEAF), key=lambda item: item[0][0])
    made = []
    for (number, name, following), key in ordered:
        to = [each for each in following if each is not None and each[0] in wanted]
        if to:
            wanted.add(key)
            made.append((number, name, to))
    there: set[tuple[int, int]] = set()
    found = []
    for number, name, to in reversed(made):
        before = len(there)
        there.update(to)
        found.append((number, name, len(to), len(to) - len(there) + before))
    return found[::-1]
