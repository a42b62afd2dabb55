"""CUDA graphs: their capture, which is a compilation, and their replays."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch import closures
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

MODULE = "torch.cuda.graphs"


class Captures:
    """Record the capture of a graph as one span, from its begin to its end."""

    def __init__(self, session: "Session") -> None:
        self._recorder = session.recorder
        self._label = session.recorder.intern("capture CUDA graph")
        #: id of the graph -> its span; a capture begins and ends on one thread
        self._tokens: dict[int, int] = {}

    def begins(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `capture_begin`."""

        def capture_begin(self_: Any, *args: Any, **kwargs: Any) -> Any:
            token = self._recorder.begin(self._label, Category.COMPILE)
            result = original(self_, *args, **kwargs)
            self._tokens[id(self_)] = token
            return result

        return closures.replace(original, capture_begin)

    def ends(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `capture_end`."""

        def capture_end(self_: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return original(self_, *args, **kwargs)
            finally:
                self._recorder.end(self._tokens.pop(id(self_), 0))

        return closures.replace(original, capture_end)


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around CUDA graphs."""
    captures = Captures(session)
    return [
        Target(MODULE, "CUDAGraph.capture_begin", closure=captures.begins),
        Target(MODULE, "CUDAGraph.capture_end", closure=captures.ends),
        Target(MODULE, "CUDAGraph.replay", closure=closures.recorded(session, "replay CUDA graph", Category.GRAPH)),
    ]
