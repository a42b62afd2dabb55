"""Record the compilations of `torch.compile`, the reasons for recompilations, and runs of compiled graphs.

Dynamo compiles a function of the script in `_compile`. If the function breaks the graph, Dynamo compiles only parts of
it. The backward pass of a graph is compiled when it first runs. PyTorch imports Dynamo's modules at the first use of
`torch.compile`, so the hooks are applied then.
"""

import re
import sys
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import RAISED, Target
from ms_profiler.job.frameworks.torch import closures
from ms_profiler.job.frameworks.torch.closures import FRAMES
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: names of Dynamo's function that returns why it cannot reuse an earlier compilation; PyTorch 2.5 and older use the
#: second name
CAUSES = ("get_and_maybe_log_recompilation_reasons", "get_and_maybe_log_recompilation_reason")
#: Dynamo's function that traces a function for an export, from PyTorch 2.9 on; before, an export calls `_compile`
CAPTURE = "_fullgraph_capture_frame"
GRAPHS = "torch._dynamo.output_graph"
CALLBACKS = "torch._dynamo.callback"
#: Dynamo stores a compiled graph in a global variable of the script. This is the begin of the variable's name.
GRAPH = "__compiled_fn"
#: Largest length of the recorded cause of a recompilation, in characters.
CAUSE_MOST = 200

#: number of functions, or parts of functions, that Dynamo has compiled in this process
compiled = 0

_COMPARED = re.compile(r"(?P<what>.+?) (==|!=|is not|is|not in|in|<=|>=|<|>) .*")
_CHECKED = re.compile(r"___(?P<check>\w+)\((?P<what>[^,()]*).*")


class _Compiling(threading.local):
    def __init__(self) -> None:
        #: [name, reason of the recompilation] of each function that is being compiled, innermost last
        self.running: list[list[str]] = []
        #: token of the span of a compilation that is not part of Dynamo's, such as that of a backward pass
        self.token = 0


_compiling = _Compiling()


class Compilation:
    """Record compilations, their causes, and runs of graphs."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        #: (name of a function, its code) -> number of compilations
        self._counts: dict[tuple[str, CodeType], int] = {}

    def function(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of Dynamo's `_compile`, whose first argument is the code of a function."""
        recorder, guard, compiling = self.host.recorder, self.host.guard, _compiling

        def _compile(code: CodeType, *args: Any, **kwargs: Any) -> Any:
            token, running = 0, [code.co_name, ""]
            with guard("noting a compilation"):
                closures.tracing_begins()
                running[0] = title(code, args[1] if len(args) > 1 else {})
                token = recorder.begin(recorder.intern(f"compile {running[0]}"), Category.COMPILE)
            compiling.running.append(running)
            flags = RAISED
            try:
                result = original(code, *args, **kwargs)
                flags = 0
            finally:
                compiling.running.pop()
                recorder.end(token, flags)
                if not flags:
                    with guard("noting why a function was compiled again"):
                        self._compiled(code, *running)
            return result

        return closures.replace(original, _compile)

    def captures(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of Dynamo's function that traces a function for an export."""
        guard = self.host.guard

        def fullgraph_capture(*args: Any, **kwargs: Any) -> Any:
            with guard("noting an export"):
                closures.tracing_begins()
            return original(*args, **kwargs)

        return closures.replace(original, fullgraph_capture)

    def _compiled(self, code: CodeType, name: str, why: str) -> None:
        global compiled
        compiled += 1
        count = self._counts[name, code] = self._counts.get((name, code), 0) + 1
        if why:
            recorder = self.host.recorder
            recorder.instant(recorder.intern(f"recompile {name}: {why}"), Category.COMPILE, count)

    def causes(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of Dynamo's function that returns why it cannot reuse an earlier compilation.

        Dynamo's function returns a reason for each earlier compilation. The replacement notes the first one.
        """
        compiling, guard = _compiling, self.host.guard

        def reasons(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            with guard("reading why a function is compiled again"):
                if compiling.running:
                    compiling.running[-1][1] = cause(result[0]) if result else "unknown"
            return result

        return closures.replace(original, reasons)

    def starts(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of PyTorch's callback at the begin of a compilation.

        The replacement ignores compilations by Dynamo, because the method `function` records them. PyTorch 2.7 and
        older do not tell the callback the name of the compilation. With these, the name of the span is "compile graph".
        """
        recorder, guard, compiling = self.host.recorder, self.host.guard, _compiling

        def run_start_callbacks(handler: Any, *args: Any) -> Any:
            with guard("noting a compilation"):
                name = args[0].callback_trigger.name.lower().replace("_", " ") if args else "graph"
                if name != "dynamo" and not compiling.token and (args or not compiling.running):
                    compiling.token = recorder.begin(recorder.intern(f"compile {name}"), Category.COMPILE)
            return original(handler, *args)

        return closures.replace(original, run_start_callbacks)

    def ends(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of PyTorch's callback at the end of a compilation."""
        recorder, compiling = self.host.recorder, _compiling

        def run_end_callbacks(handler: Any, *args: Any) -> Any:
            recorder.end(compiling.token)
            compiling.token = 0
            return original(handler, *args)

        return closures.replace(original, run_end_callbacks)

    def graphs(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of the function that stores a compiled graph in the script's global variables."""
        guard, compiling = self.host.guard, _compiling

        def install_global_unsafe(output: Any, name: str, value: Any) -> Any:
            with guard("naming a graph"):
                if name.startswith(GRAPH) and isinstance(value, FunctionType) and compiling.running:
                    value = self._runs(value, compiling.running[-1][0])
            return original(output, name, value)

        return closures.replace(original, install_global_unsafe)

    def _runs(self, graph: Callable[..., Any], name: str) -> Callable[..., Any]:
        return base.recorded(self.host, f"graph {name}", Category.GRAPH)(graph)


def title(code: CodeType, variables: dict[str, Any]) -> str:
    """Return the name of a function or module that Dynamo compiles.

    Args:
        code: the code of the function. For a module of PyTorch itself, this is the code of a function `inner`, which
            Dynamo makes to call the module.
        variables: the local variables of the call that is being compiled.
    """
    name: str = getattr(code, "co_qualname", code.co_name)  # `co_qualname` exists from Python 3.11 on
    if code.co_name == "inner" and code.co_filename.endswith("external_utils.py"):
        inside = variables.get("fn")
        name = inside.__qualname__ if type(inside) is FunctionType else trees.kind_name(inside)
    return name


def cause(text: str) -> str:
    """Return Dynamo's text about a failed guard, without values and source lines of the script.

    Sizes and types of tensors stay in the text. For any other object, the result says only that the value changed.

    Args:
        text: Dynamo's text, for example "0/0: tensor 'x' size mismatch at index 0. expected 2, actual 3" or
            "0/1: flag == True  # source".
    """
    line = text.partition("\n")[0].partition("  #")[0]
    line = re.sub(r"^\d+/\d+(_\d+)?: ", "", line).partition(". Guard failed")[0].strip()
    if not line.startswith(("tensor ", "GLOBAL_STATE")) and ".size()" not in line:
        if match := _CHECKED.fullmatch(line):
            line = f"{match['what']}: {match['check'].replace('_', ' ')}"
        elif match := _COMPARED.fullmatch(line):
            line = f"{match['what']} has another value"
    return line[:CAUSE_MOST]


def targets(host: "Host") -> list[Target]:
    """Return Dynamo's functions to wrap, after Dynamo's import; exclude our own functions from Dynamo's tracing."""
    closures.hide()
    compilation = Compilation(host)
    causes = next((name for name in CAUSES if name in vars(sys.modules[FRAMES])), CAUSES[0])
    captures = [Target(FRAMES, CAPTURE, closure=compilation.captures)] if CAPTURE in vars(sys.modules[FRAMES]) else []
    return [
        Target(FRAMES, "_compile", closure=compilation.function),
        Target(FRAMES, causes, closure=compilation.causes),
        Target(GRAPHS, "OutputGraph.install_global_unsafe", closure=compilation.graphs),
        *captures,
    ]


def callbacks(host: "Host") -> list[Target]:
    """Return the callbacks to wrap, which report compilations; their module may be imported later than Dynamo."""
    compilation = Compilation(host)
    return [
        Target(CALLBACKS, "CompilationCallbackHandler.run_start_callbacks", closure=compilation.starts),
        Target(CALLBACKS, "CompilationCallbackHandler.run_end_callbacks", closure=compilation.ends),
    ]
