"""Model.train, fit, eval, predict, and the steps of their loops."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import RAISED, Target, Wrapper, span
from ms_profiler.store.format import Category, StepSource

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

MODULE = "mindspore.train.model"
CALLBACKS = "mindspore.train.callback._callback"


class Loops:
    """Follow which loop of `Model` runs, and report its steps.

    An evaluation inside training is no step of the training. A job that only evaluates has the evaluation's batches
    for steps.
    """

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.running: list[str] = []

    def run(self, kind: str) -> Wrapper:
        """Return the wrapper of one public method of `Model`."""
        session = self.session
        name = session.recorder.intern(f"Model.{kind}")
        begin, end = session.recorder.begin, session.recorder.end

        def wrapper(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            token = begin(name, Category.RUN)
            with session.guard("following Model"):
                self._enter(kind)
                self._note_sinking(wrapped, args, kwargs)
            try:
                result = wrapped(*args, **kwargs)
            except BaseException:
                end(token, RAISED)
                raise
            finally:
                with session.guard("following Model"):
                    self._leave()
            end(token)
            return result

        return wrapper

    def step_ended(self, kind: str) -> Wrapper:
        """Return the wrapper of what calls the callbacks at the end of a step: the last thing a step does."""
        session, now, framework_loop = self.session, self.session.recorder.now, StepSource.FRAMEWORK_LOOP

        def wrapper(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            result = wrapped(*args, **kwargs)
            if self.running and self.running[0] == kind:
                with session.guard("marking a step"):
                    session.steps.ended(framework_loop, now())
            return result

        return wrapper

    def nested(self) -> Wrapper:
        """Return the wrapper of the evaluation that `fit` runs between epochs."""
        session = self.session
        record = span(session, "Model.fit evaluation", Category.RUN)

        def wrapper(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            with session.guard("following Model"):
                session.steps.suspend()
            try:
                return record(wrapped, instance, args, kwargs)
            finally:
                with session.guard("following Model"):
                    session.steps.resume()

        return wrapper

    def sinks(self) -> Wrapper:
        """Return the wrapper of the loop in which a device takes many batches at a time."""
        session = self.session

        def wrapper(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            session.not_collected(
                "steps inside a data sink", "in graph mode a device takes many batches at once: each step is one sink"
            )
            return wrapped(*args, **kwargs)

        return wrapper

    def _note_sinking(self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Say so where the script asks for data sinking and will not get it."""
        import inspect  # MindSpore has imported it

        if "dataset_sink_mode" not in inspect.signature(method).parameters:
            return
        asked = inspect.signature(method).bind(*args, **kwargs).arguments.get("dataset_sink_mode", False)
        if asked and sys.modules[MODULE].context.get_context("device_target") == "CPU":
            self.session.not_collected("data sinking", "the script asks for it, but on a CPU MindSpore trains without")

    def _enter(self, kind: str) -> None:
        loop = "eval" if kind == "eval" else "train" if kind in ("train", "fit") else kind
        steps = self.session.steps
        nested = bool(self.running) and self.running[0] == "train" and loop != "train"
        if nested or (loop == "eval" and steps.count and not self.running):
            steps.suspend()
            self.running.append("suspended")
        else:
            if loop in ("train", "eval") and not self.running:
                steps.loop_began()
            self.running.append(loop)

    def _leave(self) -> None:
        left = self.running.pop()
        if left == "suspended":
            self.session.steps.resume()
        elif left in ("train", "eval") and not self.running:
            self.session.steps.loop_ended()


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped in the Model loops."""
    loops = Loops(session)
    return [
        *(Target(MODULE, f"Model.{kind}", loops.run(kind)) for kind in ("train", "fit", "eval", "predict", "build")),
        Target(MODULE, "Model._eval_in_fit", loops.nested()),
        Target(MODULE, "Model._train_dataset_sink_process", loops.sinks()),
        Target(CALLBACKS, "CallbackManager.on_train_step_end", loops.step_ended("train")),
        Target(CALLBACKS, "CallbackManager.on_eval_step_end", loops.step_ended("eval")),
    ]
