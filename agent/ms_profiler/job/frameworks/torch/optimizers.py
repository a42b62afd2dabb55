"""Optimizers: their steps, resets of gradients, and changes of learning rates.

Steps are seen through PyTorch's own hooks for all optimizers, which also cover those that were made, or wrapped by a
scheduler, before we came. A step may run another inside, as a wrapper of an optimizer does: the outermost counts.

A scheduler's `step` warns in the name of its caller, so it is not replaced. What it computes is, in every version and
every kind of scheduler but the one that looks at a metric, inside of one context; that begins and ends the span.
"""

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Target
from ms_profiler.job.frameworks.torch import closures
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

OPTIMIZER = "torch.optim.optimizer"
SCHEDULERS = "torch.optim.lr_scheduler"
SCALER = "torch.amp.grad_scaler"
#: makes the state of an optimizer by a step without gradients, to load a checkpoint of many ranks into it
STATES = "torch.distributed.checkpoint.state_dict"
#: of the registered hooks
handles: list[Any] = []


class _Running(threading.local):
    def __init__(self) -> None:
        #: (id of the frame that runs a step, its span, id of the optimizer), innermost last
        self.steps: list[tuple[int, int, int]] = []
        #: steps that ended
        self.ended = 0


class _Preparing(threading.local):
    def __init__(self) -> None:
        self.state = False


#: the calling thread has PyTorch make the state of an optimizer
_preparing = _Preparing()


class Optimizers:
    """Record what optimizers do, and tell `Steps` of each step."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self._running = _Running()
        self._labels: dict[type, tuple[int, int]] = {}
        self._absorbed: set[int] = set()

    def before(self, hooks: Any) -> Any:
        """Register what is called at the begin of a step; `hooks` stay what they are."""
        self._hook("register_optimizer_step_pre_hook", "begin", self._begins)
        return hooks

    def after(self, hooks: Any) -> Any:
        """Register what is called at the end of a step; `hooks` stay what they are."""
        self._hook("register_optimizer_step_post_hook", "end", self._ends)
        return hooks

    def _hook(self, registers: str, which: str, notes: Callable[[Any, FrameType], None]) -> None:
        tracing, guard, what = closures.traced(), self.session.guard, f"noting the {which} of an optimizer's step"

        def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
            if not tracing():
                with guard(what):
                    notes(optimizer, sys._getframe(1))

        handles.append(getattr(sys.modules[OPTIMIZER], registers)(closures.unseen(hook)))

    def _begins(self, optimizer: Any, frame: FrameType) -> None:
        recorder, running = self.session.recorder, self._running.steps
        if running:
            self._drop_failed(running, frame)
        kind = type(optimizer)
        label = self._labels.get(kind)
        if label is None:
            name = kind.__name__
            label = self._labels[kind] = recorder.intern(f"{name}.step"), recorder.intern(name)
        token = recorder.begin(label[0], Category.OPTIMIZER, label[1])
        if not token and base.forked:
            base.forked[0].reopen()
            token = recorder.begin(label[0], Category.OPTIMIZER, label[1])
        running.append((id(frame), token, id(optimizer)))

    def _ends(self, optimizer: Any, frame: FrameType) -> None:
        recorder, running, which = self.session.recorder, self._running.steps, id(optimizer)
        while running and running[-1][0] != id(frame):
            recorder.end(running.pop()[1], RAISED)
        if not running:
            return  # it began before we came
        recorder.end(running.pop()[1])
        if not running:
            self.stepped(which)
        elif which not in self._absorbed and all(around != which for _, _, around in running):
            self._absorbed.add(which)
            self.session.steps.optimizer_absorbed()

    def stepped(self, which: int) -> None:
        """Note that the optimizer of that id has made a step."""
        self._running.ended += 1
        if _preparing.state:
            return  # nothing is trained
        self.session.steps.optimizer_ended(which, self.session.recorder.now())

    def _drop_failed(self, running: list[tuple[int, int, int]], frame: FrameType) -> None:
        """Forget steps that an exception ended, of which no hook tells: their frames are not around this one."""
        around, outer = set(), frame.f_back
        while outer is not None:
            around.add(id(outer))
            outer = outer.f_back
        while running and running[-1][0] not in around:
            self.session.recorder.end(running.pop()[1], RAISED)

    def made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `Optimizer.__init__`, which tells how many optimizers the job has."""

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands in for the method
            original(self, *args, **kwargs)
            with session.guard("counting optimizers"):
                session.steps.optimizer_made()

        session = self.session
        return closures.replace(original, __init__)

    def scaled(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of what steps, unless gradients of a scaled loss are not finite.

        Where it does not, the job has made a step all the same, in which no parameter changed.
        """
        session, running = self.session, self._running
        skipped = session.recorder.intern("optimizer step skipped: gradients are not finite")

        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = running.ended
            result = original(scaler, optimizer, *args, **kwargs)
            if running.ended == before:
                with session.guard("noting a skipped step"):
                    session.recorder.instant(skipped, Category.OPTIMIZER)
                    self.stepped(id(getattr(optimizer, "optimizer", optimizer)))
            return result

        return closures.replace(original, step)


class Rates:
    """Record how long schedulers compute learning rates."""

    def __init__(self, session: "Session") -> None:
        self._recorder = session.recorder
        self._label = session.recorder.intern("learning rate")
        self._tracing = closures.traced()
        #: id of the context -> its span
        self._tokens: dict[int, int] = {}

    def begins(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of what enters the context."""

        def __enter__(self_: Any) -> Any:  # noqa: N807 - stands in for the method
            if not self._tracing():
                self._tokens[id(self_)] = self._recorder.begin(self._label, Category.OPTIMIZER)
            return original(self_)

        return closures.replace(original, __enter__)

    def ends(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of what leaves the context."""

        def __exit__(self_: Any, kind: Any, *reason: Any) -> Any:  # noqa: N807 - stands in for the method
            if not self._tracing():
                self._recorder.end(self._tokens.pop(id(self_), 0), RAISED if kind else 0)
            return original(self_, kind, *reason)

        return closures.replace(original, __exit__)


def preparing(session: "Session") -> list[Target]:
    """Declare what is wrapped around the making of an optimizer's state: its step is none of the job's."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def prepare(*args: Any, **kwargs: Any) -> Any:
            before, _preparing.state = _preparing.state, True
            try:
                return original(*args, **kwargs)
            finally:
                _preparing.state = before

        return closures.replace(original, prepare)

    return [Target(STATES, "_init_optim_state", closure=make)]


def release() -> None:
    """Take the hooks out of PyTorch."""
    while handles:
        handles.pop().remove()


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around optimizers, schedulers and scaled losses."""
    optimizers, rates = Optimizers(session), Rates(session)

    def recorded(module: str, path: str, name: str) -> Target:
        return Target(module, path, closure=closures.recorded(session, name, Category.OPTIMIZER))

    return [
        Target(OPTIMIZER, "_global_optimizer_pre_hooks", closure=optimizers.before),
        Target(OPTIMIZER, "_global_optimizer_post_hooks", closure=optimizers.after),
        Target(OPTIMIZER, "Optimizer.__init__", closure=optimizers.made),
        recorded(OPTIMIZER, "Optimizer.zero_grad", "zero_grad"),
        Target(SCHEDULERS, "_enable_get_lr_call.__enter__", closure=rates.begins),
        Target(SCHEDULERS, "_enable_get_lr_call.__exit__", closure=rates.ends),
        recorded(SCHEDULERS, "ReduceLROnPlateau._reduce_lr", "learning rate"),
        recorded(SCALER, "GradScaler.unscale_", "GradScaler.unscale_"),
        recorded(SCALER, "GradScaler.update", "GradScaler.update"),
        Target(SCALER, "GradScaler._maybe_opt_step", closure=optimizers.scaled),
    ]
