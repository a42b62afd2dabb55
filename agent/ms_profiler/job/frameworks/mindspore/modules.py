"""Cell.__call__: a span for each call of a cell.

In graph mode only the outermost call passes here, because the inner cells were compiled. The wrapper has `__wrapped__`,
and MindSpore's parser never sees it, because it reads `construct`.
"""

import sys
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.autograd import looking
from ms_profiler.job.frameworks.base import Inside, Labels, Target
from ms_profiler.job.frameworks.mindspore import recompute
from ms_profiler.job.frameworks.mindspore.tape import Tape, supported
from ms_profiler.job.frameworks.networks import Networks, Titles
from ms_profiler.store.format import Category, Flag, StepSource
from ms_profiler.store.names import EVALUATING

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Meaning of the end of a call for the steps.
NOTHING, OPTIMIZER, TRAINS, NETWORK = range(4)
#: span of a call: id of the name, category, id of the class's name
Span = tuple[int, int, int]
#: the span and the meaning of the end of a call; the span alone where the end means nothing
Label = tuple[Span, int]
#: state of a call: cell, role, whether its thread trained before, forward pass, span and label of the cell, autograd's
#: number
Call = tuple[int, int, bool, int, int, Span, int | None]
#: copies of members of an enumeration, whose look-up takes 2 us where caches are cold
MODULE, FORWARD, NO_GRADIENTS = int(Category.MODULE), int(Category.FORWARD), int(Flag.NO_GRADIENTS)
OPTIMIZER_CYCLE, TRAIN_CELL = StepSource.OPTIMIZER_CYCLE, StepSource.TRAIN_CELL
#: the attribute that holds the cells in a cell
TABLE = "_cells"
#: the attribute that holds the parameters of a cell
PARAMETERS = "_params"
#: module that defines the classes of parameters, unless the script defines its own
_MADE_BY = ("abc", "builtins", "pybind11_builtins")
#: ends of the paths of cells that MindSpore puts around a recomputed cell, and around its method
AGAIN, WRAPPED = "._recompute_cell", ".wrap_cell"
#: Names of cell classes whose time is communication.
REDUCERS = ("DistributedGradReducer", "PipelineGradReducer")

#: whether this thread is inside of a call that means something for the steps, or of a gradient
training = Inside()


def sizes(parameter: Any) -> tuple[int, int] | None:
    """Return elements and bytes of a parameter, or None if only code of the script could tell."""
    for kind in type(parameter).__mro__:
        if kind.__module__ not in _MADE_BY and kind.__module__.partition(".")[0] != "mindspore":
            return None
    tensor = vars(sys.modules["mindspore"].Tensor)
    try:
        count = int(tensor["size"].fget(parameter))
        return count, count * int(tensor["itemsize"].fget(parameter))
    except (AttributeError, KeyError, TypeError, ValueError):  # older versions of MindSpore do not report the property
        return None


class Modules:
    """Name cells by their place in the outermost cell, and assign a phase to their time."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self.labels: Labels[Label | Span] = Labels(self._describe)
        self._forward, self._evaluates = host.recorder.intern("forward"), host.recorder.intern(EVALUATING)
        self._trained = False  # in training mode: cells are not in it unless the script says so
        self._unnamed = host.recorder.intern(base.UNNAMED)
        # each attribute that a step looks up takes half a microsecond where caches are cold
        self._steps, self._now, self._end = host.steps, host.recorder.now, host.recorder.end
        self.graph_mode = False
        self.networks = Networks(host, TABLE, PARAMETERS, sizes, lambda kind: issubclass(kind, optimizer_types()))
        self._titles = Titles()
        self._paths: dict[Span, str] = {}  # of cells
        self._watched = False
        self._absorbed: Labels[bool] = Labels(lambda cell: True)

    def _describe(self, cell: Any) -> Label | Span:
        """Name `cell` and every cell below it; a cell that moves keeps its first name."""
        again = self._again(cell)
        root = again or self._titles.of(cell, self.networks.has_parameters(cell))
        span, role = self._label(cell, root)
        if role != OPTIMIZER and not again:
            # kernels of a graph do not name their outermost cell, except where a second cell of its class exists
            self.networks.called("" if self.graph_mode and "#" not in root else root, cell)
        if role == NOTHING and not again:
            role = NETWORK
        if not self.graph_mode:
            for path, inner in trees.walk(cell, TABLE):
                if path and id(inner) not in self.labels.known:
                    self.labels.put(inner, self._label_of(*self._label(inner, f"{root}.{path}")))
        if role == OPTIMIZER:
            self._absorb(cell)
        return self._label_of(span, role)

    def _label_of(self, span: Span, role: int) -> Label | Span:
        return (span, role) if role or self._watched else span

    def _again(self, cell: Any) -> str:
        """Return the path of a cell that MindSpore made around a known one to compute it again; "" for others."""
        if trees.kind_name(cell) != recompute.CELLS[0]:
            return ""
        net = trees.held(cell, "net", TABLE)
        if trees.kind_name(net) == recompute.CELLS[1]:
            method = trees.held(net, "function", TABLE)
            net = method.__self__ if type(method) is MethodType else net
        label: Any = self.labels.known.get(id(net))
        path = label and self._paths.get(label[0] if len(label) == 2 else label)
        return f"{path}{AGAIN}" if path else ""

    def _absorb(self, optimizer: Any) -> None:
        """Exclude optimizers that are inside another optimizer, as in LARS, from the steps."""
        for _, inner in trees.children(optimizer, TABLE):
            if issubclass(type(inner), optimizer_types()):
                self.labels.put(inner, self._label(inner, trees.kind_name(inner))[0])
                if id(inner) not in self._absorbed.known:
                    self._absorbed.add(inner)
                    self.host.steps.optimizer_absorbed()

    def _label(self, cell: Any, name: str) -> tuple[Span, int]:
        kind = trees.kind_name(cell)
        recorder, labels = self.host.recorder, self.labels
        category, role = self._meaning(cell, kind)
        shown = name.removesuffix(WRAPPED).removesuffix(AGAIN) if kind in recompute.CELLS else name
        known = name if kind == recompute.CELLS[0] else shown  # identifies the node of the recomputation
        title, named = labels.name(recorder, kind) or self._unnamed, labels.name(recorder, shown)
        span = (named or title, int(category), title)
        self._paths[span] = known if named else kind
        return span, role

    def watch(self, on: bool) -> None:
        """Report every call of a cell to `began` and `ended`, or only some.

        Args:
            on: report every call; otherwise only the calls that have a meaning for the steps.
        """
        known, self._watched = self.labels.known, on
        for key, label in list(known.items()):
            if on and len(label) == 3:
                known[key] = (label, NOTHING)
            elif not on and label[1] == NOTHING and len(label) == 2:
                known[key] = label[0]

    def _meaning(self, cell: Any, kind: str) -> tuple[Category, int]:
        if issubclass(type(cell), optimizer_types()):
            return Category.OPTIMIZER, OPTIMIZER
        trains = any(issubclass(type(inner), optimizer_types()) for _, inner in trees.children(cell, TABLE))
        role = TRAINS if trains else NOTHING
        if self.graph_mode:
            return Category.GRAPH, role
        if kind in REDUCERS:
            return Category.COMMUNICATION, role
        # a training cell is no forward pass: its time outside of its parts belongs to the loop
        return (Category.OTHER if role == TRAINS else Category.MODULE), role

    def call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `Cell.__call__`."""
        return self.host.recorder.wrap(
            original,
            category=MODULE,
            before=self.began,
            after=self.ended,
            labels=self.labels.known,
            describe=self._named,
            failed=self.host.guard("recording a cell"),
            forked=base.forked,
            outermost=base.CELLS,
        )

    def _named(self, cell: Any) -> Label | Span:
        with self.host.guard("naming a module"):
            return self.labels.add(cell)
        return 0, MODULE, 0

    def began(self, cell: Any, *_: Any, **__: Any) -> Call:
        """Begin a call whose end has a meaning for the steps.

        A call of a network outside of training cells and gradients is an evaluation or similar.
        """
        key = id(cell)
        label: Any = self.labels.known.get(key) or self._named(cell)
        span, role = label if len(label) == 2 else (label, NOTHING)
        if recompute.running():
            role = NOTHING if role == NETWORK else role  # a backward pass calls it again
        elif role == NOTHING and not training.value:
            role = NETWORK  # a part of a training cell may also be called separately
        trained, training.value = training.value, True
        around = 0
        if role == NETWORK:
            self._steps.call_began(self._now())
        elif role:
            self._steps.began(self._now())
        if role == NETWORK or not self._trained:
            mode = trees.attributes(cell).get("training")
            self._trained |= mode is True
            # a compiled call has no inner modules; the analysis may leave out modules of a long run
            if role == NETWORK and not trained and span[1] == MODULE:
                name = self._evaluates if self._trained and mode is False else self._forward
                around = base.begin(self.host.recorder, name, FORWARD)
        token = base.begin(self.host.recorder, *span)
        number = None if looking.tape is None else looking.tape.cell_began()
        return key, role, trained, around, token, span, number

    def ended(self, call: Call, result: Any, reason: BaseException | None) -> None:
        """End a call."""
        key, role, trained, around, token, span, number = call
        if looking.tape is not None:
            looking.tape.cell_ended(key, self._paths.get(span, ""), number)
        training.value = trained
        flags = NO_GRADIENTS if role == NETWORK and not trained else 0
        raised = 0 if reason is None else base.flags_of(reason)
        self._end(token, raised | (0 if around else flags))
        if around:
            self._end(around, raised | flags)
        if role == NETWORK:
            self._steps.call_ended(key, self._now())
        elif role and reason is None:
            self._steps.turn_ended(OPTIMIZER_CYCLE if role == OPTIMIZER else TRAIN_CELL, key, self._now())

    def mode_set(self, state: Any, result: Any, reason: BaseException | None) -> None:
        """Follow the execution mode, on which the phase of a cell's time depends."""
        if reason is None:
            self.read_mode()

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


def targets(host: "Host") -> list[Target]:
    """Declare the targets of modules."""
    modules = Modules(host)
    modules.read_mode()
    host.at_step(modules.networks.stepped)
    host.at_end(modules.networks.end)
    if supported(host):
        host.at_step(Tape(host, modules.watch).stepped)
    sets = base.around(host, "following the mode", lambda *_, **__: True, modules.mode_set)
    return [
        Target("mindspore.nn.cell", "Cell.__call__", closure=modules.call),
        # the first calls the second, but through a table that was filled before the hooks were applied
        Target("mindspore.context", "set_context", closure=sets, copies=True),
        Target("mindspore.context", "_Context.set_mode", closure=sets),
    ]
