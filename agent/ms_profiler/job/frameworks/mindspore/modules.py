"""Cell.__call__: where the time of a step goes, module by module.

In graph mode only the outermost call passes here; what is inside was compiled. The wrapper keeps `__wrapped__` and is
never seen by MindSpore's parser, which reads `construct`.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Labels, Target, keep_signature
from ms_profiler.store.format import Category, StepSource

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

#: What the end of a call means for the steps.
NOTHING, OPTIMIZER, TRAINS, NETWORK = range(4)
#: (name id, category, id of the class's name), what the end means
Label = tuple[tuple[int, int, int], int]
#: Cells whose time is communication, by the name of their class.
REDUCERS = ("DistributedGradReducer", "PipelineGradReducer")


class Modules:
    """Name cells by their place in the outermost cell, and tell what their time is spent on."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.labels: Labels[Label] = Labels(self._describe)
        self.graph_mode = False
        self._absorbed: set[int] = set()

    def _describe(self, cell: Any) -> Label:
        """Name `cell` and every cell below it; a cell that moves keeps its first name."""
        root = type(cell).__name__
        label = self._label(cell, root)
        if label[1] == NOTHING:
            label = label[0], NETWORK
        if not self.graph_mode:
            for path, inner in cell.cells_and_names():
                if path and id(inner) not in self.labels.known:
                    self.labels.put(inner, self._label(inner, f"{root}.{path}"))
        if label[1] == OPTIMIZER:
            self._absorb(cell)
        return label

    def _absorb(self, optimizer: Any) -> None:
        """Leave out of the steps what optimizers are inside another, as in LARS."""
        for inner in optimizer.cells():
            if isinstance(inner, optimizer_types()):
                self.labels.put(inner, (self._label(inner, type(inner).__name__)[0], NOTHING))
                if id(inner) not in self._absorbed:
                    self._absorbed.add(id(inner))
                    self.session.steps.optimizer_absorbed()

    def _label(self, cell: Any, name: str) -> Label:
        kind = type(cell).__name__
        intern = self.session.recorder.intern
        category, role = self._meaning(cell, kind)
        return (intern(name), int(category), intern(kind)), role

    def _meaning(self, cell: Any, kind: str) -> tuple[Category, int]:
        if isinstance(cell, optimizer_types()):
            return Category.OPTIMIZER, OPTIMIZER
        role = TRAINS if any(isinstance(inner, optimizer_types()) for inner in cell.cells()) else NOTHING
        if self.graph_mode:
            return Category.GRAPH, role
        if kind in REDUCERS:
            return Category.COMMUNICATION, role
        # a cell that trains is no forward pass: what it does besides its parts is the loop's
        return (Category.OTHER if role == TRAINS else Category.MODULE), role

    def call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `Cell.__call__`."""
        session = self.session
        known, labels, forked = self.labels.known, self.labels, base.forked
        recorder = session.recorder
        begin, end, now = recorder.begin, recorder.end, recorder.now
        unnamed = (0, int(Category.MODULE), 0), NOTHING
        train_cell = StepSource.TRAIN_CELL  # a member of an enumeration takes 2 us to look up where caches are cold

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - stands in for the method
            label = known.get(id(self))
            if label is None:
                label = unnamed
                with session.guard("naming a module"):
                    label = labels.add(self)
            span, role = label
            if role > OPTIMIZER:
                try:  # no guard: it takes a microsecond, and this is done every step
                    if role == TRAINS:
                        session.steps.began(now())
                    else:
                        session.steps.call_began(now())
                except Exception as reason:  # noqa: BLE001
                    session.failed("marking a step", reason)
            token = begin(*span)
            if not token and forked:
                forked[0].reopen()
                token = begin(*span)
            try:
                result = original(self, *args, **kwargs)
            except BaseException:
                end(token, RAISED)
                if role == NETWORK:
                    with session.guard("marking a step"):
                        session.steps.call_ended(id(self), now())
                raise
            end(token)
            if role:
                try:
                    if role == NETWORK:
                        session.steps.call_ended(id(self), now())
                    elif role == OPTIMIZER:
                        session.steps.optimizer_ended(id(self), now())
                    else:
                        session.steps.ended(train_cell, now())
                except Exception as reason:  # noqa: BLE001
                    session.failed("marking a step", reason)
            return result

        return keep_signature(original, __call__)

    def mode_set(
        self, wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Wrap what sets the execution mode: what a cell's time means depends on it."""
        result = wrapped(*args, **kwargs)
        with self.session.guard("following the mode"):
            self.read_mode()
        return result

    def read_mode(self) -> None:
        """Take over the execution mode that is set now."""
        context = sys.modules["mindspore.context"]
        graph_mode = context._get_mode() == context.GRAPH_MODE
        if graph_mode != self.graph_mode:
            self.graph_mode = graph_mode
            self.labels.clear()


def optimizer_types() -> tuple[type, ...]:
    """Return MindSpore's two families of optimizers, as far as they are loaded."""
    found = []
    for module in ("mindspore.nn.optim.optimizer", "mindspore.experimental.optim.optimizer"):
        kind = getattr(sys.modules.get(module), "Optimizer", None)
        if isinstance(kind, type):
            found.append(kind)
    return tuple(found)


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around modules."""
    modules = Modules(session)
    modules.read_mode()
    return [
        Target("mindspore.nn.cell", "Cell.__call__", closure=modules.call),
        # the second is what the first calls, but from a table that was filled before we came
        Target("mindspore.context", "set_context", modules.mode_set, copies=True),
        Target("mindspore.context", "_Context.set_mode", modules.mode_set),
    ]
