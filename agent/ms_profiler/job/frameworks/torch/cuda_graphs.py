"""Record the captures and the replays of CUDA graphs; a capture has the category of compilations.

A graph may contain the step of an optimizer. The GPU does not run this step during the capture, but in each replay. So
a replay of such a graph ends a training step, and the capture does not. A graph may also contain several steps of an
optimizer. The host cannot tell when each of them runs, so a replay is one step all the same.
"""

import weakref
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Target
from ms_profiler.job.frameworks.torch import optimizers
from ms_profiler.store.format import Category, StepSource

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MODULE = "torch.cuda.graphs"


class Graphs:
    """Record the capture of a graph as one span, from its begin to its end, and its replays; report training steps."""

    def __init__(self, host: "Host") -> None:
        self._host, self._recorder = host, host.recorder
        self._capture, self._replay = map(host.recorder.intern, ("capture CUDA graph", "replay CUDA graph"))
        #: id of the graph -> token of its span; a capture begins and ends on one thread
        self._tokens: dict[int, int] = {}
        #: id of the graph -> the optimizers whose steps it contains: id -> reference
        self._steps: dict[int, dict[int, weakref.ref[Any]]] = {}
        self.begins = base.around(host, "recording a capture", self._begin, self._begun)
        self.ends = base.around(host, "recording a capture", self._same, self._end)
        self.replays = base.around(host, "recording a replay", self._start, self._finish)

    def _same(self, graph: Any, *_: Any, **__: Any) -> Any:
        return graph

    def _begin(self, graph: Any, *_: Any, **__: Any) -> tuple[int, int]:
        return id(graph), self._recorder.begin(self._capture, Category.COMPILE)

    def _begun(self, call: tuple[int, int], result: Any, reason: BaseException | None) -> None:
        if reason is not None:
            self._recorder.end(call[1], RAISED)
            return
        self._tokens[call[0]] = call[1]
        optimizers.begin_capture(self._host)

    def _end(self, graph: Any, result: Any, reason: BaseException | None) -> None:
        self._recorder.end(self._tokens.pop(id(graph), 0))
        self._steps.pop(id(graph), None)  # of a deleted graph with the same id
        captured = optimizers.end_capture(self._host)
        if captured and reason is None:
            self._steps[id(graph)] = captured

    def _start(self, graph: Any, *_: Any, **__: Any) -> tuple[int, int]:
        if id(graph) in self._steps:
            self._host.steps.began(self._recorder.now())
        return id(graph), self._recorder.begin(self._replay, Category.GRAPH)

    def _finish(self, call: tuple[int, int], result: Any, reason: BaseException | None) -> None:
        self._recorder.end(call[1], RAISED if reason is not None else 0)
        if reason is not None:
            return
        for which, held in self._steps.get(call[0], {}).items():
            self._host.steps.turn_ended(StepSource.OPTIMIZER_CYCLE, which, self._recorder.now(), held())


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: methods of `CUDAGraph` that capture and replay."""
    graphs = Graphs(host)
    return [
        Target(MODULE, "CUDAGraph.capture_begin", closure=graphs.begins),
        Target(MODULE, "CUDAGraph.capture_end", closure=graphs.ends),
        Target(MODULE, "CUDAGraph.replay", closure=graphs.replays),
    ]
