"""Record the captures and the replays of CUDA graphs; a capture has the category of compilations."""

from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import Target
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MODULE = "torch.cuda.graphs"


class Captures:
    """Record the capture of a graph as one span, from its begin to its end."""

    def __init__(self, host: "Host") -> None:
        self._recorder = host.recorder
        self._label = host.recorder.intern("capture CUDA graph")
        #: id of the graph -> token of its span; a capture begins and ends on one thread
        self._tokens: dict[int, int] = {}
        self.begins = base.around(host, "recording a capture", self._begin, self._begun)
        self.ends = base.around(host, "recording a capture", self._same, self._end)

    def _same(self, graph: Any, *_: Any, **__: Any) -> Any:
        return graph

    def _begin(self, graph: Any, *_: Any, **__: Any) -> tuple[int, int]:
        return id(graph), self._recorder.begin(self._label, Category.COMPILE)

    def _begun(self, call: tuple[int, int], result: Any, reason: BaseException | None) -> None:
        if reason is None:
            self._tokens[call[0]] = call[1]

    def _end(self, graph: Any, result: Any, reason: BaseException | None) -> None:
        self._recorder.end(self._tokens.pop(id(graph), 0))


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: methods of `CUDAGraph` that capture and replay."""
    captures = Captures(host)
    return [
        Target(MODULE, "CUDAGraph.capture_begin", closure=captures.begins),
        Target(MODULE, "CUDAGraph.capture_end", closure=captures.ends),
        Target(MODULE, "CUDAGraph.replay", closure=base.recorded(host, "replay CUDA graph", Category.GRAPH)),
    ]
