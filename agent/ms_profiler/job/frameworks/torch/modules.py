"""Record each call of a module (`Module.__call__`) as a span.

The outermost call of a thread is a forward pass. In compiled code, our replacement of `Module.__call__` records only
the outermost call: for inner calls, Dynamo calls `forward` directly. Dynamo does so only if `Module.__call__` is the
same function as at Dynamo's import. Mostly this function is our replacement, because Dynamo is imported late, at the
first use of `torch.compile`.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.autograd import looking
from ms_profiler.job.frameworks.base import Labels, Target, flags_of
from ms_profiler.job.frameworks.networks import Networks, Titles
from ms_profiler.job.frameworks.notes import Notes
from ms_profiler.job.frameworks.strategy import Strategy
from ms_profiler.job.frameworks.torch import parallel, tensors
from ms_profiler.job.frameworks.torch.replicas import Replicas
from ms_profiler.job.frameworks.torch.tape import Tape, supported
from ms_profiler.job.frameworks.torch.tensor_places import Places
from ms_profiler.job.recorder.shortcut import Shortcut, Usual
from ms_profiler.store.format import Category, Flag
from ms_profiler.store.names import EVALUATING, GRADIENTS

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MODULE = "torch.nn.modules.module"
#: what the spans of a module have in common: id of the module's name, category, id of the name of the module's class
Span = tuple[int, int, int]
#: The cached data of a module (its label): its `Span`; while ms-profiler reads autograd's graph, its `Span` and path.
Label = Span | tuple[Span, str]
#: for modules that only wrap another module: class of the wrapper -> attribute in which it holds the wrapped module
AROUND = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "OptimizedModule": "_orig_mod",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}
#: class of the wrapper module that exchanges the gradients of the wrapped module once a step
REPLICATED = "DistributedDataParallel"
#: name of the attribute of a module that holds the modules in it
TABLE = "_modules"
#: name of the attribute of a module that holds its parameters
PARAMETERS = "_parameters"
#: Copies of members of enumerations. To look a member up takes 2 us while the processor's caches are cold.
FORWARD, MODULE_CATEGORY, NO_GRADIENTS = int(Category.FORWARD), int(Category.MODULE), int(Flag.NO_GRADIENTS)
#: names of attributes of wrapper modules; they are left out of the paths of modules
BETWEEN = frozenset(AROUND.values()) - {"module"}


def contained(module: Any) -> Any:
    """Return the innermost module that a wrapper module wraps; the module itself if it wraps none."""
    for _ in range(len(AROUND)):
        attribute = AROUND.get(trees.kind_name(module), "")
        inside = trees.held(module, attribute, TABLE)
        if inside is None:
            break
        module = inside
    return module


def sizes(parameter: Any) -> tuple[int, int] | None:
    """Return the numbers of elements and bytes of a parameter; None if its class is not PyTorch's own.

    A tensor of another class may hold only a part of the parameter, so its size means little. The result is also None
    for a sparse tensor.
    """
    torch = sys.modules["torch"]
    known = type(parameter) in (torch.nn.Parameter, torch.Tensor)
    if not known or tensors.read(parameter, "layout") not in (torch.strided, torch._mkldnn):
        return None
    # Do not use `numel` here. During `torch.jit.trace`, it returns a tensor and adds an operator to the graph.
    size = int(tensors.read(parameter, "nbytes"))
    return size // int(tensors.read(parameter, "itemsize")), size


def paths(root: Any, title: str) -> Iterator[tuple[str, Any]]:
    """Yield path and module for a module and each module in it; each path begins with `title`."""
    for path, inner in trees.walk(root, TABLE):
        parts = [part for part in path.split(".") if part and part not in BETWEEN]
        yield ".".join([title, *parts]), inner


def gradients(module: Any) -> int:
    """Return the bytes of the gradients of a module and all modules in it."""
    plain = sys.modules["torch"].nn.Parameter
    total = 0
    for _, inner in trees.walk(module, TABLE):
        own = trees.held_in(inner, PARAMETERS).values()
        # A subclass of Parameter may run code of the script when an attribute is read. So count plain Parameters only.
        total += sum(item.nbytes for item in own if type(item) is plain and item.requires_grad)
    return total


class Modules:
    """Record calls of modules. Name each module by its first path in the outermost module, also if it moves later."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self.labels: Labels[Label] = Labels(self._describe)
        self.networks = Networks(host, TABLE, PARAMETERS, sizes)
        self._titles = Titles()
        self._forward, self._evaluates = host.recorder.intern("forward"), host.recorder.intern(EVALUATING)
        self._paths: dict[int, str] = {}  # id of the name of a module's spans -> path of the module
        self._unnamed = host.recorder.intern(base.UNNAMED)
        self._trains = sys.modules["torch"].is_grad_enabled
        self._notes = Notes(host)
        self.replicas = Replicas(host, self._notes)

    def everything(self) -> Iterator[tuple[str, Any]]:
        """Yield path and module of each module in the networks that the job has called."""
        for title, root in self.networks.alive():
            yield from paths(root, title)

    def _describe(self, module: Any) -> Label:
        known, root = self.labels.known, contained(module)
        title = self._titles.of(root, self.networks.has_parameters(root))
        self.networks.called(title, root)
        if trees.kind_name(module) == REPLICATED:
            self._notes.add(f"{GRADIENTS}{title}", gradients(module))
            self.replicas.seen(title, module)
        for name, inner in paths(root, title):
            if inner is not module and id(inner) not in known:
                self.labels.put(inner, self._label(inner, name))
        return self._label(module, title if module is root else trees.class_name(module))

    def _label(self, module: Any, name: str) -> Label:
        recorder, labels = self.host.recorder, self.labels
        own = trees.class_name(module)
        kind, named = labels.name(recorder, own) or self._unnamed, labels.name(recorder, name)
        label = named or kind, MODULE_CATEGORY, kind
        self._paths[label[0]] = name if named else own
        return label if looking.tape is None else (label, self._paths[label[0]])

    def watch(self, on: bool) -> None:
        """Choose which calls of modules are reported to `began` and `ended`.

        Args:
            on: True to report all calls. False to report only the outermost calls.
        """
        known = self.labels.known
        for key, label in list(known.items()):
            if on and len(label) == 3:
                known[key] = label, self._paths.get(label[0], "")
            elif not on and len(label) == 2:
                known[key] = label[0]

    def call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `Module.__call__`."""
        replacement = self.host.recorder.wrap(
            original,
            category=MODULE_CATEGORY,
            before=self.began,
            after=self.ended,
            labels=self.labels.known,
            describe=self.labels.add,
            failed=self.host.guard("recording a module"),
            forked=base.forked,
            outermost=base.MODULES,
            shortcut=Shortcut(Usual.FORWARD, self.host.steps, self.labels.known, self._trains, self._forward, FORWARD),
            rests=True,
        )
        with self.host.guard("telling Dynamo about Module.__call__"):
            _register_with_dynamo(original, replacement)
        return replacement

    def began(self, module: Any, *_: Any, **__: Any) -> tuple[int, int, int, int, int, str]:
        """Begin the spans of a module's call; report an outermost call to `Steps`, which decides where steps end.

        An outermost call is a forward pass. Without gradients it is an evaluation, which begins no training step.
        """
        steps, recorder, key, flags = self.host.steps, self.host.recorder, id(module), NO_GRADIENTS
        if recorder.nest(base.MODULES, 0):
            number = 0 if looking.tape is None else looking.tape.number()
            span, path = self._span_and_path(module)
            return 0, 0, 0, base.begin(recorder, *span), number, path
        at, name = recorder.now(), self._forward
        if self._trains():
            flags = 0
            steps.began(at, forward=True)
        elif trees.attributes(module).get("training") is False:
            name = self._evaluates
        steps.call_began(at)
        # Read the number only after `steps.began`. If this call begins a new step, `steps.began` may have switched the
        # reading of autograd's graph on.
        number = 0 if looking.tape is None else looking.tape.number()
        around = base.begin(recorder, name, FORWARD)
        span, path = self._span_and_path(module)
        return key, flags, around, recorder.begin(*span), number, path

    def _span_and_path(self, module: Any) -> tuple[Span, str]:
        label: Label | None = self.labels.known.get(id(module))
        if label is None:
            label = 0, MODULE_CATEGORY, 0
            with self.host.guard("naming a module"):
                label = self.labels.add(module)
        return label if len(label) == 2 else (label, "")

    def ended(self, call: tuple[int, int, int, int, int, str], result: Any, reason: BaseException | None) -> None:
        """End the spans of a module's call; report the end of an outermost call to `Steps`."""
        key, flags, around, token, number, path = call
        recorder, raised = self.host.recorder, flags_of(reason) if reason is not None else 0
        recorder.end(token, raised)
        if looking.tape is not None and path:
            looking.tape.called(path, number)
        if not key:  # a call inside another call is not reported to `Steps`
            return
        recorder.end(around, raised | flags)
        self.host.steps.call_ended(key, recorder.now())


def _register_with_dynamo(original: Any, replacement: Any) -> None:
    """Make Dynamo treat our replacement as `Module.__call__`; needed if Dynamo was imported before the replacement."""
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        module = sys.modules.get(name)
        if getattr(module, "unpatched_nn_module_call", None) is original:
            module.unpatched_nn_module_call = replacement  # type: ignore[union-attr]


def targets(host: "Host") -> list[Target]:
    """Return `Module.__call__`, to wrap it; register functions that read networks between steps."""
    modules = Modules(host)
    host.at_step(modules.networks.stepped, follows=False)
    host.at_end(modules.networks.end)
    host.at_step(modules.replicas.stepped, follows=False)
    host.at_end(modules.replicas.end)
    host.at_step(Places(host, modules.everything, PARAMETERS).stepped, follows=False)
    Strategy(host, parallel.read)
    call = functools.cache(modules.call)

    def before(module: Any, mode: bool = True, *_: Any, **__: Any) -> None:
        if not mode and host.sources.rest.resting:  # the job begins an evaluation, whose calls are recorded
            host.sources.rest.end(host.steps.count)

    evaluates = Target(MODULE, "Module.train", closure=base.around(host, "noting an evaluation", before))
    if supported():
        host.at_step(Tape(host, modules.watch).stepped)
    # both names of PyTorch mean the same function, and pickle uses the second one
    calls = [Target(MODULE, f"Module.{name}", closure=call) for name in ("__call__", "_wrapped_call_impl")]
    return [*calls, evaluates]
