"""Record each call of a cell (`Cell.__call__`) as a span.

In graph mode, Python calls only the outermost cell, because the inner cells were compiled. ms-profiler replaces
`Cell.__call__`. MindSpore's compiler is not affected, because it reads the method `construct`.
"""

import sys
from collections.abc import Callable, Iterator
from types import MethodType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.autograd import looking
from ms_profiler.job.frameworks.base import Inside, Labels, Target
from ms_profiler.job.frameworks.mindspore import recompute, tensors
from ms_profiler.job.frameworks.mindspore.effects import Effect, effects
from ms_profiler.job.frameworks.mindspore.tape import Tape, supported
from ms_profiler.job.frameworks.networks import Networks, Titles
from ms_profiler.store.format import Category, Flag, Kind, StepSource
from ms_profiler.store.names import EVALUATING

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Role of a cell, from which ms-profiler decides where steps end. OPTIMIZER: an optimizer. TRAINS: a training cell,
#: which has an optimizer in it. NETWORK: any other outermost cell. NOTHING: any other cell.
NOTHING, OPTIMIZER, TRAINS, NETWORK = range(4)
#: what the spans of a cell have in common: id of the cell's name, category, id of the name of the cell's class
Span = tuple[int, int, int]
#: The cached data of a cell (its label): the `Span` and the role. If the role is NOTHING and autograd's graph is not
#: read now, the label is the `Span` alone.
Label = tuple[Span, int]
#: A call of a cell that has not ended: id of the cell, role, value of `training` before the call, token of the span of
#: the forward pass, token of the cell's span, `Span` of the cell, number of autograd's newest node at the begin, and
#: the time of the begin if the cell is a compiled network in evaluation mode, else 0.
Call = tuple[int, int, bool, int, int, Span, int | None, int]
#: Copies of members of enumerations. To look a member up takes 2 us while the processor's caches are cold.
MODULE, FORWARD, NO_GRADIENTS = int(Category.MODULE), int(Category.FORWARD), int(Flag.NO_GRADIENTS)
SPAN = int(Kind.SPAN)
OPTIMIZER_CYCLE, TRAIN_CELL = StepSource.OPTIMIZER_CYCLE, StepSource.TRAIN_CELL
#: name of the attribute of a cell that holds the cells in it
TABLE = "_cells"
#: name of the attribute of a cell that holds its parameters
PARAMETERS = "_params"
#: name of the attribute of a cell that holds its flags, such as its mode
FLAGS = "_func_graph_flags"
#: name of the attribute of a training cell of MindSpore that holds its network
INNER = "network"
#: The modules outside of MindSpore that define base classes of its parameters. A class from elsewhere is the script's.
_MADE_BY = ("abc", "builtins", "pybind11_builtins")
#: MindSpore puts a cell of its own around a cell that is recomputed in the backward pass, and one around the method of
#: that cell. These are the ends of the paths of the two.
AGAIN, WRAPPED = "._recompute_cell", ".wrap_cell"
#: Names of the classes of cells that exchange gradients between ranks. Their time counts as communication.
REDUCERS = ("DistributedGradReducer", "PipelineGradReducer")

#: whether this thread is inside a call of an optimizer, a training cell or a network, or inside a gradient function
training = Inside()


def sizes(parameter: Any) -> tuple[int, int] | None:
    """Return the numbers of elements and bytes of a parameter; None if the script defines the class of the parameter.

    A class of the script may override the properties that are read here. Code of the script must not run here.
    """
    for kind in type(parameter).__mro__:
        if kind.__module__ not in _MADE_BY and kind.__module__.partition(".")[0] != "mindspore":
            return None
    tensor = vars(sys.modules["mindspore"].Tensor)
    try:
        count = int(tensor["size"].fget(parameter))
        return count, count * int(tensor["itemsize"].fget(parameter))
    except (AttributeError, KeyError, TypeError, ValueError):  # older versions of MindSpore lack one of the properties
        return None


def mode(cell: Any) -> bool | None:
    """Return the mode that `set_train` set: True for training, False for evaluation; None if it was never called.

    A new cell has the attribute `training`, too, with the value False. So this value alone does not mean an evaluation.
    `set_train` also notes the mode of a cell, and of each cell in it, as a flag of the cell.
    """
    known = trees.attributes(cell)
    value, flags = known.get("training"), known.get(FLAGS)
    return value if type(value) is bool and type(flags) is dict and "training" in flags else None


class Called:
    """The object that names the called cells, a `Modules`; None before MindSpore is hooked."""

    modules: "Modules | None" = None


called = Called()


class Modules:
    """Record calls of cells: name each cell by its path in the outermost cell, and choose the category of its spans."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self.labels: Labels[Label | Span] = Labels(self._describe)
        self._forward, self._evaluates = host.recorder.intern("forward"), host.recorder.intern(EVALUATING)
        self._unnamed = host.recorder.intern(base.UNNAMED)
        # copies, because to look an attribute up takes half a microsecond in each step while the caches are cold
        self._steps, self._now, self._end = host.steps, host.recorder.now, host.recorder.end
        self.graph_mode = False
        self.networks = Networks(host, TABLE, PARAMETERS, sizes, lambda kind: issubclass(kind, optimizer_types()))
        self._titles = Titles()
        self._paths: dict[Span, str] = {}  # span -> path of the cell
        self._watched = False
        self._absorbed: Labels[bool] = Labels(lambda cell: True)

    def _describe(self, cell: Any) -> Label | Span:
        """Return the label of a cell, which has its name, and label every cell in it.

        A cell keeps its first name, also if the script later moves it into another cell.
        """
        again = self._again(cell)
        root = again or self._titles.of(cell, self.networks.has_parameters(cell))
        span, role = self._label(cell, root)
        if role != OPTIMIZER and not again:
            # In a compiled graph, the modules of kernels are named without the first outermost cell of a class. Only
            # the second and later ones, for example `Net#2`, are part of the names. So the first has an empty title.
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
        """Return the path of a cell that MindSpore made to recompute another cell; "" for any other cell."""
        if trees.kind_name(cell) != recompute.CELLS[0]:
            return ""
        net = trees.held(cell, "net", TABLE)
        if trees.kind_name(net) == recompute.CELLS[1]:
            method = trees.held(net, "function", TABLE)
            net = method.__self__ if type(method) is MethodType else net
        label: Any = self.labels.known.get(id(net))
        path = label and self._paths.get(label[0] if len(label) == 2 else label)
        return f"{path}{AGAIN}" if path else ""

    def holders(self, parameters: set[int]) -> dict[str, list[str]]:
        """Return the paths of the cells that hold parameters, by the name of the parameter.

        Args:
            parameters: the ids of the parameters.
        """
        found: dict[str, list[str]] = {}
        for _, root in self.networks.alive():
            for _, cell in without_optimizers(root):
                label: Any = self.labels.known.get(id(cell))
                path = label and self._paths.get(label[0] if len(label) == 2 else label)
                for parameter in list(dict.values(trees.attributes(cell).get(PARAMETERS) or {})):
                    if path and id(parameter) in parameters and (name := tensors.name(parameter)):
                        paths = found.setdefault(name, [])
                        paths += [] if path in paths else [path]
        return found

    def _absorb(self, optimizer: Any) -> None:
        """Count an optimizer. Do not count the optimizers inside it, as in LARS, because their calls end no steps."""
        self.host.steps.optimizer_made(optimizer)  # the hook did not see it if it is a copy, or older than the hook
        for _, inner in trees.children(optimizer, TABLE):
            if issubclass(type(inner), optimizer_types()):
                self.host.steps.optimizer_made(inner)
                self.labels.put(inner, self._label(inner, trees.kind_name(inner))[0])
                if id(inner) not in self._absorbed.known:
                    self._absorbed.add(inner)
                    self.host.steps.optimizer_absorbed()

    def _label(self, cell: Any, name: str) -> tuple[Span, int]:
        kind = trees.kind_name(cell)
        recorder, labels = self.host.recorder, self.labels
        category, role = self._meaning(cell, kind)
        shown = name.removesuffix(WRAPPED).removesuffix(AGAIN) if kind in recompute.CELLS else name
        known = name if kind == recompute.CELLS[0] else shown  # nodes of a recomputation get a path of their own
        title, named = labels.name(recorder, kind) or self._unnamed, labels.name(recorder, shown)
        span = (named or title, int(category), title)
        self._paths[span] = known if named else kind
        return span, role

    def watch(self, on: bool) -> None:
        """Choose which calls of cells are reported to `began` and `ended`.

        Args:
            on: True to report the calls of all cells. False to report only optimizers, training cells and networks.
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
        # A training cell is not a forward pass. Its time outside of its inner cells belongs to the training loop.
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
        """Begin the spans of a cell's call, and report the begin to `steps.py`, which decides where steps end.

        If a network is called outside of training cells and gradient functions, the call is an evaluation or similar.
        """
        key = id(cell)
        label: Any = self.labels.known.get(key) or self._named(cell)
        span, role = label if len(label) == 2 else (label, NOTHING)
        if recompute.running():
            role = NOTHING if role == NETWORK else role  # the backward pass recomputes a network: no new forward pass
        elif role == NOTHING and not training.value:
            role = NETWORK  # the script calls an inner cell of a training cell by itself
        trained, training.value = training.value, True
        around = since = 0
        begun = self._now() if role else 0
        if role == NETWORK:
            self._steps.call_began(begun)
        elif role:
            self._steps.began(begun)
        if role == NETWORK and not trained:
            evaluates = mode(cell) is False
            # Record a span for the whole forward pass, too, because the analysis may leave out the spans of modules of
            # a long run. A compiled graph needs such a span only if it evaluates, which is known when it is compiled.
            if span[1] == MODULE:
                around = base.begin(self.host.recorder, self._evaluates if evaluates else self._forward, FORWARD)
            elif evaluates:
                since = begun
        token = base.begin(self.host.recorder, *span)
        number = None if looking.tape is None else looking.tape.cell_began()
        if role == TRAINS and looking.tape is not None and not trained:
            # MindSpore's training cell calls its network before it asks for gradients, so the forward pass begins here
            looking.tape.began(trees.held(cell, INNER, TABLE))
        return key, role, trained, around, token, span, number, since

    def ended(self, call: Call, result: Any, reason: BaseException | None) -> None:
        """End the spans of a cell's call, and report the end to `steps.py`, which decides where steps end."""
        key, role, trained, around, token, span, number, since = call
        if looking.tape is not None:
            looking.tape.cell_ended(key, self._paths.get(span, ""), number)
            if role == TRAINS and not trained:
                looking.tape.forget()
        training.value = trained
        flags = NO_GRADIENTS if role == NETWORK and not trained else 0
        raised = 0 if reason is None else base.flags_of(reason)
        evaluated = since and effects.known.get(key) == Effect.FORWARD
        self._end(token, raised | (0 if around or evaluated else flags))
        if around:
            self._end(around, raised | flags)
        elif evaluated:
            self.host.recorder.record(SPAN, FORWARD, raised | flags, self._evaluates, since, self._now(), 0)
        if role == NETWORK:
            self._steps.call_ended(key, self._now())
        elif role and reason is None:
            source = OPTIMIZER_CYCLE if role == OPTIMIZER else TRAIN_CELL
            self._steps.turn_ended(source, key, self._now(), inside=trained)

    def mode_set(self, state: Any, result: Any, reason: BaseException | None) -> None:
        """Read the execution mode after the script has set it, because the category of a cell's spans depends on it."""
        if reason is None:
            self.read_mode()

    def read_mode(self) -> None:
        """Read whether MindSpore is in graph mode; if the mode has changed, forget the labels (names) of all cells."""
        context = sys.modules["mindspore.context"]
        graph_mode = context._get_mode() == context.GRAPH_MODE
        if graph_mode != self.graph_mode:
            self.graph_mode = graph_mode
            self.labels.clear()


def holders(optimizer: Any) -> dict[str, list[str]]:
    """Return the paths of the called cells that hold the parameters of an optimizer, by the name of the parameter.

    Args:
        optimizer: the optimizer; the result is empty for any other object.
    """
    if called.modules is None or not issubclass(type(optimizer), optimizer_types()):
        return {}
    attributes = trees.attributes(optimizer)
    parameters: Any = attributes.get("_parameters", attributes.get("parameters"))
    if not issubclass(type(parameters), (tuple, list)):
        return {}
    return called.modules.holders(set(map(id, parameters)))


def without_optimizers(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield path and object of a cell and of each cell in it; leave out optimizers and the cells in them."""
    skipped: tuple[str, ...] = ()
    for path, cell in trees.walk(root, TABLE):
        if skipped and path.startswith(skipped):
            continue
        if issubclass(type(cell), optimizer_types()):
            skipped += (f"{path}.",)
            continue
        yield path, cell


def optimizer_types() -> tuple[type, ...]:
    """Return the base classes of MindSpore's optimizers (`nn` and `experimental`), as far as they are imported."""
    found = []
    for module in ("mindspore.nn.optim.optimizer", "mindspore.experimental.optim.optimizer"):
        kind = getattr(sys.modules.get(module), "Optimizer", None)
        if isinstance(kind, type):
            found.append(kind)
    return tuple(found)


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: `Cell.__call__`, and the functions that set the execution mode."""
    modules = called.modules = Modules(host)
    modules.read_mode()
    host.at_step(modules.networks.stepped, follows=False)
    host.at_end(modules.networks.end)
    if supported(host):
        host.at_step(Tape(host, modules.watch).stepped)
    sets = base.around(host, "following the mode", lambda *_, **__: True, modules.mode_set)
    return [
        Target("mindspore.nn.cell", "Cell.__call__", closure=modules.call),
        # set_context keeps a reference to the original set_mode from before the wrapping. So both are wrapped.
        Target("mindspore.context", "set_context", closure=sets, copies=True),
        Target("mindspore.context", "_Context.set_mode", closure=sets),
    ]
