"""Record the optimizers' steps, resets of gradients, and changes of learning rates.

PyTorch's global hooks for optimizers report the steps. These hooks also cover optimizers that were made, or wrapped by
a scheduler, before the profiler started. A step of one optimizer may call the step of another one, for example if the
first optimizer is a wrapper. Then only the outermost step counts.

ms-profiler does not replace the method `step` of a scheduler, because it issues warnings that name the line of its
caller. In every version of PyTorch, a scheduler computes inside one context manager. So the span begins and ends with
this context manager. The only exception is ReduceLROnPlateau, which reads a metric. ms-profiler wraps its own method.
"""

import functools
import inspect
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import RAISED, Inside, Target
from ms_profiler.job.frameworks.torch import closures
from ms_profiler.store.format import Category, StepSource
from ms_profiler.store.names import LEARNING_RATE

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

OPTIMIZER = "torch.optim.optimizer"
SCHEDULERS = "torch.optim.lr_scheduler"
SCALER = "torch.amp.grad_scaler"
#: Module that loads checkpoints of many ranks. Before it loads the state of an optimizer, it creates the state by a
#: step without gradients.
STATES = "torch.distributed.checkpoint.state_dict"
OPTIMIZER_CATEGORY = int(Category.OPTIMIZER)
#: The extension records a usual step of an optimizer without Python code (a shortcut). These are reasons not to do so.
#: RUNNING: a step that Python code recorded is still open. PREPARING: the step only creates an optimizer's state.
#: CAPTURING: a CUDA graph captures the step.
RUNNING, PREPARING, CAPTURING = 1, 2, 4
#: names of PyTorch's functions that register hooks for the begin and the end of each optimizer's step
BEFORE, AFTER = "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"
#: handles that PyTorch returned for our hooks; with them, the hooks can be removed
handles: list[Any] = []
#: id -> optimizer, for each optimizer that has made a step
seen: dict[int, weakref.ref[Any]] = {}


class _Running(threading.local):
    def __init__(self) -> None:
        #: open steps of this thread: (id of the frame that runs the step, token of its span, id of the optimizer); the
        #: innermost step is the last
        self.steps: list[tuple[int, int, int]] = []
        #: number of steps that ended, without those that the extension recorded without Python code
        self.ended = 0


#: whether this thread runs a step that only creates the state of an optimizer
_preparing = Inside()


class _Captures(threading.local):
    """The captures of CUDA graphs that this thread has begun, the innermost last."""

    def __init__(self) -> None:
        #: for each capture: id of each optimizer that has made a step in it -> reference to the optimizer
        self.open: list[dict[int, weakref.ref[Any]]] = []


_captures = _Captures()


class Optimizers:
    """Record the steps of optimizers, and report each of them to `Steps`, which decides where training steps end."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self._running = _Running()
        self._labels: base.Labels[tuple[int, int]] = base.Labels(self._label)
        self._absorbed: base.Labels[bool] = base.Labels(lambda optimizer: True)
        self._quick: list[Any] = []  # our hooks in C

    def before(self, hooks: Any) -> Any:
        """Register our hook for the begin of an optimizer's step; return PyTorch's table of hooks unchanged."""
        self._hook(BEFORE, "begin", self._begins)
        return hooks

    def after(self, hooks: Any) -> Any:
        """Register our hook for the end of an optimizer's step; return PyTorch's table of hooks unchanged."""
        self._hook(AFTER, "end", self._ends)
        return hooks

    def _hook(self, registers: str, which: str, notes: Callable[[Any, FrameType], None]) -> None:
        tracing, failed = closures.traced(), self.host.guard(f"noting the {which} of an optimizer's step")
        recorder, running, forked = self.host.recorder, self._running, base.forked

        def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
            if not tracing():
                try:
                    frame = sys._getframe(1)
                    if not forked and take is not None and take(optimizer, frame):
                        return
                    if (step := recorder.take_optimizer_step()) is not None:
                        running.steps += [step] if step[0] else _unnoted(step[2], optimizer, frame, registers == AFTER)
                    try:
                        notes(optimizer, frame)
                    finally:
                        recorder.leave_optimizers(RUNNING, bool(running.steps))
                except BaseException as reason:  # noqa: BLE001 - an exception of the job is raised again
                    failed(reason)

        closures.unseen(hook)
        quick = recorder.optimizer_hook(
            hook,
            begins=registers == BEFORE,
            steps=self.host.steps,
            labels=self._labels.known,
            category=OPTIMIZER_CATEGORY,
            failed=failed,
            forked=forked,
        )
        take = None if quick is None else quick.take
        handle = getattr(sys.modules[OPTIMIZER], registers)(quick or hook)
        _renumber(handle, -1 - len(handles))
        handles.append(handle)
        if quick is not None:
            self._quick.append(quick)
            closures.before_tracing(functools.partial(_exchange, handle, hook))

    def _begins(self, optimizer: Any, frame: FrameType) -> None:
        recorder, running = self.host.recorder, self._running.steps
        if running:
            self._drop_failed(running, frame)
        else:
            self.host.steps.began(recorder.now())
        kind = type(optimizer)
        label = self._labels.known.get(id(kind)) or self._labels.add(kind)
        token = base.begin(recorder, label[0], OPTIMIZER_CATEGORY, label[1])
        running.append((id(frame), token, id(optimizer)))

    def _label(self, kind: type) -> tuple[int, int]:
        intern = self.host.recorder.intern
        name = trees.name(kind)
        return intern(f"{name}.step"), intern(name)

    def _ends(self, optimizer: Any, frame: FrameType) -> None:
        recorder, running, which = self.host.recorder, self._running.steps, id(optimizer)
        while running and running[-1][0] != id(frame):
            recorder.end(running.pop()[1], RAISED)
        if not running:
            return  # the begin of this step was not recorded, because our hook did not exist yet
        recorder.end(running.pop()[1])
        if not running:
            if (held := seen.get(which)) is None or held() is not optimizer:
                seen[which] = weakref.ref(optimizer)
            self.stepped(which, optimizer)
        elif which not in self._absorbed.known and all(around != which for _, _, around in running):
            self._absorbed.add(optimizer)
            self.host.steps.optimizer_made(optimizer)
            self.host.steps.optimizer_absorbed()

    def rest(self, on: bool) -> None:
        """Let hooks rest, so that only steps are counted from now on, or let them record again."""
        self._count(self._countable() if on else 0)
        self.host.recorder.rest(on)

    def _count(self, which: int) -> None:
        """From now on, note the steps of the optimizer with this id at their ends only; 0: of no optimizer."""
        for quick in self._quick:
            quick.counted = which

    def _countable(self) -> int:
        """Return the id of the job's only optimizer if each of its steps calls our hooks once; otherwise 0.

        Its steps may then be counted at their ends only, which takes 1 us less of a step that is not sampled. PyTorch
        calls our hooks in each method `step` that it has marked as hooked. A class may override such a method and call
        it. Then one step calls our hooks twice, and their frames are needed to tell the two calls apart. PyTorch may
        mark the method of a base class at any time. So all methods of the classes have to be one function and hooks
        around it.
        """
        lone = self.host.steps.lone
        held = seen.get(lone)
        if held is None or (optimizer := held()) is None or self._absorbed.known:
            return 0
        base_class = sys.modules[OPTIMIZER].Optimizer
        steps = [vars(kind).get("step") for kind in type(optimizer).__mro__ if kind is not base_class]
        return lone if len({inspect.unwrap(step) for step in steps if step is not None}) == 1 else 0

    def stepped(self, which: int, optimizer: Any) -> None:
        """Note that an optimizer has made a step; `which` is its id."""
        self._running.ended += 1
        if _preparing.value:
            return  # the step only creates the optimizer's state
        if _captures.open and _capturing():
            _captures.open[-1][which] = weakref.ref(optimizer)
            return  # the GPU runs the step when the graph is replayed
        while _captures.open:  # captures that failed, or that another thread ended
            end_capture(self.host)
        self.host.steps.turn_ended(StepSource.OPTIMIZER_CYCLE, which, self.host.recorder.now(), optimizer)

    def _drop_failed(self, running: list[tuple[int, int, int]], frame: FrameType) -> None:
        """End the spans of steps that an exception ended, because PyTorch calls no hook for them.

        Args:
            running: the steps whose spans are open.
            frame: the frame in which another step begins. An open step whose frame is not among the callers of this
                frame has ended.
        """
        around, outer = set(), frame.f_back
        while outer is not None:
            around.add(id(outer))
            outer = outer.f_back
        while running and running[-1][0] not in around:
            self.host.recorder.end(running.pop()[1], RAISED)

    def made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `Optimizer.__init__`, which counts the optimizers of the job."""

        def count(optimizer: Any) -> None:
            self._count(0)
            self.host.steps.optimizer_made(optimizer)

        return base.following(self.host, "counting optimizers", count)(original)

    def scaled(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of the function that runs a step if the gradients of a scaled loss are finite.

        If the gradients are not finite, PyTorch skips the optimizer's step. ms-profiler counts the skipped step like
        any other, because the training step ends there all the same.
        """
        host, running = self.host, self._running
        count = host.recorder.optimizer_steps
        skipped = host.recorder.intern("optimizer step skipped: gradients are not finite")

        def before(scaler: Any, optimizer: Any, *_: Any, **__: Any) -> tuple[Any, int]:
            return optimizer, running.ended + count()

        def after(call: tuple[Any, int], result: Any, reason: BaseException | None) -> None:
            optimizer, ended = call
            if reason is None and running.ended + count() == ended:
                host.recorder.instant(skipped, Category.OPTIMIZER)
                inside = trees.attributes(optimizer).get("optimizer", optimizer)
                self.stepped(id(inside), inside)

        return base.around(host, "noting a skipped step", before, after)(original)


class Rates:
    """Record how long schedulers compute learning rates."""

    def __init__(self, host: "Host") -> None:
        self._recorder = host.recorder
        self._label = host.recorder.intern(LEARNING_RATE)
        #: id of a context manager in which a scheduler computes -> token of its span
        self._tokens: dict[int, int] = {}
        self.begins = base.around(host, "recording a learning rate", self._begin, rests=True)
        self.ends = base.around(host, "recording a learning rate", self._end, rests=True)

    def _begin(self, context: Any) -> None:
        self._tokens[id(context)] = self._recorder.begin(self._label, Category.OPTIMIZER)

    def _end(self, context: Any, kind: Any, *_: Any) -> None:
        self._recorder.end(self._tokens.pop(id(context), 0), RAISED if kind else 0)


def preparing(host: "Host") -> list[Target]:
    """Return the function to wrap: it creates an optimizer's state by a step, and this step must not count."""

    def before(*_: Any, **__: Any) -> bool:
        _preparing.value = True
        host.recorder.leave_optimizers(PREPARING, True)
        return True

    def after(state: bool, result: Any, reason: BaseException | None) -> None:
        _preparing.value = False
        host.recorder.leave_optimizers(PREPARING, False)

    make = base.around(host, "following the initialisation of a state", before, after)
    return [Target(STATES, "_init_optim_state", closure=make)]


def begin_capture(host: "Host") -> None:
    """Begin to note the optimizers whose steps a CUDA graph captures on this thread; replays of it make the steps."""
    _captures.open.append({})
    host.recorder.leave_optimizers(CAPTURING, True)


def end_capture(host: "Host") -> dict[int, weakref.ref[Any]]:
    """End the innermost capture of this thread; return its optimizers: id -> reference. Empty if none has begun."""
    captured = _captures.open.pop() if _captures.open else {}
    host.recorder.leave_optimizers(CAPTURING, bool(_captures.open))
    return captured


def _capturing() -> bool:
    """Return whether a CUDA graph captures the work of this thread."""
    try:
        return bool(sys.modules["torch.cuda.graphs"].is_current_stream_capturing())
    except (RuntimeError, AttributeError):
        return False  # an error of CUDA, which the job will see itself


def _unnoted(which: int, optimizer: Any, frame: FrameType, ends: bool) -> list[tuple[int, int, int]]:
    """Return the open step whose begin was not noted, as in `_Running.steps`; nothing if an exception has ended it.

    Args:
        which: id of the optimizer whose step it is.
        optimizer: the optimizer that calls our hook.
        frame: the frame of PyTorch's that calls our hook.
        ends: whether this is the hook for the end of a step.
    """
    outer = frame if ends and id(optimizer) == which else frame.f_back
    while outer is not None and outer.f_code is not frame.f_code:
        outer = outer.f_back
    return [] if outer is None else [(id(outer), 0, which)]


def _renumber(handle: Any, number: int) -> None:
    """Give one of our hooks a number of its own, so that the job's hooks have the numbers that they have without us.

    PyTorch numbers all hooks in turn. A saved model contains the numbers of its hooks, and a job may compare its hash.

    Args:
        handle: the handle of the hook that was registered last.
        number: a negative number that no other hook of ours has.
    """
    table, kind = handle.hooks_dict_ref(), type(handle)
    if table is not None and getattr(kind, "next_id", None) == handle.id + 1:
        table[number] = table.pop(handle.id)
        handle.id, kind.next_id = number, handle.id


def _exchange(handle: Any, hook: Callable[..., None]) -> None:
    """Replace a hook in C by the hook in Python, because Dynamo traces functions of Python only."""
    table = handle.hooks_dict_ref()
    if table is not None and handle.id in table:
        table[handle.id] = hook


def release() -> None:
    """Remove our hooks for optimizers from PyTorch."""
    while handles:
        handles.pop().remove()


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: functions of optimizers, schedulers and loss scalers."""
    optimizers, rates = Optimizers(host), Rates(host)
    host.sources.rest.switches.append(optimizers.rest)

    def recorded(module: str, path: str, name: str) -> Target:
        return Target(module, path, closure=base.recorded(host, name, Category.OPTIMIZER, rests=True))

    return [
        Target(OPTIMIZER, "_global_optimizer_pre_hooks", closure=optimizers.before),
        Target(OPTIMIZER, "_global_optimizer_post_hooks", closure=optimizers.after),
        Target(OPTIMIZER, "Optimizer.__init__", closure=optimizers.made),
        recorded(OPTIMIZER, "Optimizer.zero_grad", "zero_grad"),
        Target(SCHEDULERS, "_enable_get_lr_call.__enter__", closure=rates.begins),
        Target(SCHEDULERS, "_enable_get_lr_call.__exit__", closure=rates.ends),
        recorded(SCHEDULERS, "ReduceLROnPlateau._reduce_lr", LEARNING_RATE),
        recorded(SCALER, "GradScaler.unscale_", "GradScaler.unscale_"),
        recorded(SCALER, "GradScaler.update", "GradScaler.update"),
        Target(SCALER, "GradScaler._maybe_opt_step", closure=optimizers.scaled),
    ]
