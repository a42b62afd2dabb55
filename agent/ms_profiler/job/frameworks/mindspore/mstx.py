"""Record the markers that a script makes with `mindspore.profiler.mstx`; MindSpore itself shows them only on an NPU.

MindSpore also makes markers in its own code, around waits for data and around checkpoints. ms-profiler does not record
these markers, because other hooks record the same intervals.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target, keep_signature
from ms_profiler.job.frameworks.mindspore import data
from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MODULE = "mindspore.profiler.mstx"
DEFAULT_DOMAIN = "default"


class RangeId(int):
    """The number that `range_start` of `mstx` returns, with our data about the range.

    Without an NPU, MindSpore returns 0 for every range. So the number alone does not identify a range.

    Attributes:
        name: id of the range's text in the store.
        start_ns: begin of the range, ns; 0 after the range has ended.
    """

    name = 0
    start_ns = 0


def _own_call() -> bool:
    """Return whether MindSpore's own code called the marker function, not the script."""
    return str(sys._getframe(2).f_globals.get("__name__", "")).startswith("mindspore.")


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: the three functions of `mstx` that make markers."""
    recorder, fetching = host.recorder, data.fetching

    def text(message: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        domain = args[2] if len(args) > 2 else kwargs.get("domain", DEFAULT_DOMAIN)
        if not (issubclass(type(message), str) and issubclass(type(domain), str)):
            return 0  # not a text: MindSpore refuses it, too, and its conversion to a text would run code of the script
        words, where = str.__str__(message), str.__str__(domain)
        return recorder.intern(words if where == DEFAULT_DOMAIN else f"{where}: {words}")

    def marks(original: Callable[..., Any]) -> Callable[..., Any]:
        def mark(*args: Any, **kwargs: Any) -> Any:
            if not _own_call():
                with host.guard("recording a marker"):
                    name = text(args[0] if args else kwargs.get("message"), args, kwargs)
                    if name:
                        recorder.instant(name, Category.MARKER)
            return original(*args, **kwargs)

        return keep_signature(original, mark)

    def starts(original: Callable[..., Any]) -> Callable[..., Any]:
        def range_start(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if fetching.value or _own_call() or not host.steps.recording:
                return result
            with host.guard("recording a range"):
                name = text(args[0] if args else kwargs.get("message"), args, kwargs)
                if name:
                    ranged = RangeId(result)
                    ranged.name, ranged.start_ns = name, recorder.now()
                    return ranged
            return result

        return keep_signature(original, range_start)

    def ends(original: Callable[..., Any]) -> Callable[..., Any]:
        def range_end(*args: Any, **kwargs: Any) -> Any:
            ranged = args[0] if args else kwargs.get("range_id")
            if type(ranged) is RangeId and ranged.start_ns:
                with host.guard("recording a range"):
                    recorder.record(Kind.SPAN, Category.MARKER, 0, ranged.name, ranged.start_ns, recorder.now(), 0)
                    ranged.start_ns = 0
            return original(*args, **kwargs)

        return keep_signature(original, range_end)

    return [
        Target(MODULE, "Mstx.mark", closure=marks),
        Target(MODULE, "Mstx.range_start", closure=starts),
        Target(MODULE, "Mstx.range_end", closure=ends),
    ]
