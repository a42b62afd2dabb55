"""Record the calls of `Model.train`, `fit`, `eval` and `predict`, and report the steps of their loops."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Target
from ms_profiler.store.format import Category, StepSource

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MODULE = "mindspore.train.model"
CALLBACKS = "mindspore.train.callback._callback"
LOOPS = ("train", "fit", "eval", "predict", "build")


class Loops:
    """Follow which loop of `Model` runs, for example `train` or `eval`, and report its steps.

    If a job trains, the batches of its evaluations are no steps. In a job that only evaluates, the batches of the
    evaluation are the steps.
    """

    def __init__(self, host: "Host") -> None:
        self.host = host
        self.running: list[str] = []
        self._ending = False  # whether the callbacks at the end of a training step run; they may evaluate

    def run(self, kind: str) -> base.Closure:
        """Return a decorator for a public method of `Model` that runs a loop, for example `train`."""
        host, recorder = self.host, self.host.recorder
        name = recorder.intern(f"Model.{kind}")
        category = Category.EVALUATION if kind == "eval" else Category.RUN

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def before(*args: Any, **kwargs: Any) -> list[int]:
                token = recorder.begin(name, category)
                with host.guard("following Model"):
                    self._enter(kind)
                    self._note_sinking(original, args, kwargs)
                return [token]

            return base.around(host, "following Model", before, after)(original)

        def after(tokens: list[int], result: Any, reason: BaseException | None) -> None:
            recorder.end(tokens[0], 0 if reason is None else RAISED)
            self._leave()

        return make

    def step_ended(self, kind: str, source: StepSource) -> base.Closure:
        """Return a decorator for the method that runs the callbacks of a step; when it returns, the step ends."""
        steps, now = self.host.steps, self.host.recorder.now

        def before(*_: Any, **__: Any) -> bool | None:
            if not self.running or self.running[0] != kind:
                return None
            self._ending = kind == "train"
            return True

        def after(state: bool, result: Any, reason: BaseException | None) -> None:
            self._ending = False
            if reason is None:
                steps.ended(source, now())

        return base.around(self.host, "marking a step", before, after)

    def nested(self) -> base.Closure:
        """Return a decorator for the evaluation that `fit` runs between epochs."""
        host, recorder, steps = self.host, self.host.recorder, self.host.steps
        name = recorder.intern("Model.fit evaluation")

        def before(*_: Any, **__: Any) -> list[int]:
            steps.suspend()
            return [recorder.begin(name, Category.EVALUATION)]

        def after(tokens: list[int], result: Any, reason: BaseException | None) -> None:
            recorder.end(tokens[0], 0 if reason is None else RAISED)
            steps.resume()

        return base.around(host, "following Model", before, after)

    def sinks(self) -> base.Closure:
        """Return a decorator for the loop of a data sink, in which a device takes many batches at a time."""

        def before(*_: Any, **__: Any) -> None:
            self.host.not_collected(
                "steps inside a data sink", "in graph mode a device takes many batches at once: each step is one sink"
            )

        return base.around(self.host, "noting a data sink", before)

    def _note_sinking(self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note in the run's record that data sinking has no effect, if the script requests it on a CPU."""
        import inspect  # takes no time, because MindSpore has imported it

        signature = inspect.signature(method)
        if "dataset_sink_mode" not in signature.parameters:
            return
        try:
            asked = signature.bind(*args, **kwargs).arguments.get("dataset_sink_mode", False)
        except TypeError:
            return  # the arguments are wrong, and MindSpore will raise the error
        if asked and sys.modules[MODULE].context.get_context("device_target") == "CPU":
            self.host.not_collected("data sinking", "the script asks for it, but on a CPU MindSpore trains without it")

    def _enter(self, kind: str) -> None:
        loop = "eval" if kind == "eval" else "train" if kind in ("train", "fit") else kind
        steps = self.host.steps
        nested = bool(self.running) and self.running[0] == "train" and loop != "train"
        if nested or (loop == "eval" and steps.trains and not self.running):
            steps.suspend()
            self.running.append("suspended")
        else:
            if loop in ("train", "eval") and not self.running:
                steps.loop_began()
            self.running.append(loop)

    def _leave(self) -> None:
        left = self.running.pop()
        if left == "suspended":
            self.host.steps.resume(within=self._ending)
        elif left in ("train", "eval") and not self.running:
            self.host.steps.loop_ended()


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: functions that run the loops of `Model`."""
    loops = Loops(host)
    trained = loops.step_ended("train", StepSource.FRAMEWORK_LOOP)
    evaluated = loops.step_ended("eval", StepSource.EVALUATION_LOOP)
    return [
        *(
            Target(MODULE, f"Model.{kind}", closure=loops.run(kind))
            for kind in ("train", "fit", "eval", "predict", "build")
        ),
        Target(MODULE, "Model._eval_in_fit", closure=loops.nested()),
        Target(MODULE, "Model._train_dataset_sink_process", closure=loops.sinks()),
        Target(CALLBACKS, "CallbackManager.on_train_step_end", closure=trained),
        Target(CALLBACKS, "CallbackManager.on_eval_step_end", closure=evaluated),
    ]
