"""Store a description of each compiled graph, so that the analysis can find the module of a kernel.

The names of kernels do not suffice to find the module: if several cells are equal, the kernels of all these cells have
the name of the first cell. MindSpore's description of a graph has its nodes, their inputs and the names of parameters.
It takes 300 bytes an operator, and MindSpore needs 20 to 70 us a node to write it.

ms-profiler stores the description without its constants, because constants are values of the job. The description names
parameters but not their cells. So each stored file begins with a line about the network's cells. For an optimizer, the
line has the paths of the cells that hold its parameters, because parameters of several networks may have equal names.
"""

import posix
from _io import open
from collections.abc import Iterator
from json import dumps
from typing import TYPE_CHECKING, Any

from ms_profiler import paths
from ms_profiler.job.frameworks import trees
from ms_profiler.job.frameworks.mindspore import effects, exchanges, modules
from ms_profiler.job.frameworks.mindspore.effects import Effect
from ms_profiler.job.frameworks.networks import Titles
from ms_profiler.store import anf_ir, layout
from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: largest size of the descriptions that a process stores, in bytes: enough for 200 000 operators
MOST = 64 << 20


class Graphs:
    """Store MindSpore's descriptions of the graphs that it compiles.

    Args:
        host: the session, which stores the descriptions.
    """

    def __init__(self, host: "Host") -> None:
        self.host = host
        self._label = host.recorder.intern("read a compiled graph")
        self._titles = Titles()
        self._folder = ""
        self._count = self._bytes = 0

    def compiled(self, executor: Any, subject: Any, owner: Any, phase: str, known: Effect) -> Effect:
        """Store the description of a graph that has just been compiled; return what the graph does.

        Args:
            executor: MindSpore's executor of graphs.
            subject: the cell or function that was compiled.
            owner: the object whose method was compiled, such as an optimizer; None for a cell or a function.
            phase: MindSpore's name for the graph.
            known: `Effect.TRAINS` if the graph is known to have an optimizer, else `Effect.UNKNOWN`.
        """
        describe = getattr(executor, "get_func_graph_proto", None)
        if describe is None or self.host.home is None or not executor.has_compiled(phase):
            return known
        recorder, begun = self.host.recorder, self.host.recorder.now()
        description = describe(phase, "anf_ir", False)
        exchanges.note(self.host, description)
        if self.host.wants("CPU"):
            self._write(self.host.home.folder, subject, owner, description)
        if known == Effect.UNKNOWN:
            with self.host.guard("reading a compiled graph"):
                known = effects.of(description)
        recorder.record(Kind.SPAN, Category.PROFILER, 0, self._label, begun, recorder.now(), 0)
        return known

    def _write(self, folder: str, subject: Any, owner: Any, description: bytes) -> None:
        if self.host.asks("anonymize"):
            self.host.not_collected("owners of kernels", "anonymize is on, and the descriptions of graphs have names")
            return
        if folder != self._folder:
            self._folder, self._bytes, self._count = folder, 0, len(layout.graphs(folder))
        content = anf_ir.without_constants(description)
        self._bytes += len(content)
        if self._bytes > MOST:
            self.host.not_collected("owners of kernels", f"compiled graphs are larger than {MOST >> 20} MB")
            return
        title = self._titles.of(subject, True) if _is_cell(subject) else ""
        head = {
            "time_ns": self.host.recorder.now(),
            "title": title,
            "cells": list(_cells(subject)),
            "holders": modules.holders(owner),
        }
        path = layout.graph_path(folder, self._count)
        paths.makedirs(paths.dirname(path), layout.DIRECTORY_MODE)
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL
        with open(posix.open(path, flags, layout.FILE_MODE), "wb") as stream:
            stream.write(dumps(head).encode() + b"\n" + content)
        self._count += 1


def _is_cell(subject: Any) -> bool:
    return issubclass(type(trees.attributes(subject).get(modules.TABLE)), dict)


def _cells(subject: Any) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (path, class, names of own parameters) of a cell and of each cell in it; leave out optimizers."""
    if not _is_cell(subject):  # a function has no cells
        return
    for path, cell in modules.without_optimizers(subject):
        parameters = trees.attributes(cell).get("_params") or {}
        own = [parameter.name for parameter in dict.values(parameters) if parameter is not None]
        yield path, trees.kind_name(cell), own
