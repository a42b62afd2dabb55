"""The loops of Lightning and of the Trainer of transformers: where their steps end, and what is no training.

A loop of the script's own around Accelerate needs nothing here: its optimizers call those of PyTorch.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import RAISED, Target
from ms_profiler.job.frameworks.torch import closures
from ms_profiler.store.format import Category, StepSource

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

TRAINER = "transformers.trainer"
CALLBACKS = "transformers.trainer_callback"


class Loops:
    """Follow which loop runs, and report its steps; an evaluation inside training is no step of the training."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.running = 0

    def trains(self, name: str) -> closures.Closure:
        """Return what makes the replacement of what trains until it is done."""
        steps = self.session.steps

        def began() -> None:
            self.running += 1
            steps.loop_began()

        def ended() -> None:
            self.running -= 1
            steps.loop_ended()

        return self._around(name, lambda: True, began, ended)

    def evaluates(self, name: str) -> closures.Closure:
        """Return what makes the replacement of what evaluates, inside training or by itself.

        In a job that only evaluates it is left alone.
        """
        steps = self.session.steps
        return self._around(name, lambda: bool(self.running or steps.count), steps.suspend, steps.resume)

    def _around(
        self, name: str, applies: Callable[[], bool], began: Callable[[], None], ended: Callable[[], None]
    ) -> closures.Closure:
        """Return what makes the replacement of a loop.

        Args:
            name: of its span.
            applies: whether a call that begins now counts.
            began: called when it does.
            ended: called when it is over, well or not.
        """
        session = self.session
        recorder, label = session.recorder, session.recorder.intern(name)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def loop(*args: Any, **kwargs: Any) -> Any:
                if not applies():
                    return original(*args, **kwargs)
                token = recorder.begin(label, Category.RUN)
                with session.guard("following a loop"):
                    began()
                flags = RAISED
                try:
                    result = original(*args, **kwargs)
                    flags = 0
                finally:
                    recorder.end(token, flags)
                    with session.guard("following a loop"):
                        ended()
                return result

            return closures.replace(original, loop)

        return make

    def step_ended(self, counts: Callable[[Any], bool]) -> closures.Closure:
        """Return what makes the replacement of the last thing that a step does.

        Args:
            counts: whether a call ended a step, from what it was a method of.
        """
        session, now, framework_loop = self.session, self.session.recorder.now, StepSource.FRAMEWORK_LOOP

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def ended(self_: Any, *args: Any, **kwargs: Any) -> Any:
                result = original(self_, *args, **kwargs)
                with session.guard("marking a step"):
                    if self.running and counts(self_):
                        session.steps.ended(framework_loop, now())
                return result

            return closures.replace(original, ended)

        return make


def trainer(session: "Session") -> list[Target]:
    """Declare what is wrapped in the Trainer of transformers, which reports a step where its optimizer made one."""
    loops = Loops(session)
    return [
        Target(TRAINER, "Trainer._inner_training_loop", closure=loops.trains("Trainer.train")),
        Target(TRAINER, "Trainer.evaluation_loop", closure=loops.evaluates("Trainer.evaluate")),
        Target(CALLBACKS, "CallbackHandler.on_step_end", closure=loops.step_ended(lambda handler: True)),
    ]


def _lightning(package: str) -> Callable[["Session"], list[Target]]:
    module = f"{package}.loops"

    def targets(session: "Session") -> list[Target]:
        """Declare what is wrapped in the loops of Lightning; a batch whose gradients are only added up is no step."""
        loops = Loops(session)
        ended = loops.step_ended(lambda loop: not loop._should_accumulate())
        return [
            Target(f"{module}.fit_loop", "_FitLoop.run", closure=loops.trains("Trainer.fit")),
            Target(f"{module}.evaluation_loop", "_EvaluationLoop.run", closure=loops.evaluates("Trainer.validate")),
            Target(f"{module}.training_epoch_loop", "_TrainingEpochLoop.advance", closure=ended),
        ]

    return targets


#: module with which a loop is complete -> its concern
LATER = {
    TRAINER: trainer,
    **{f"{package}.loops.fit_loop": _lightning(package) for package in ("lightning.pytorch", "pytorch_lightning")},
}
