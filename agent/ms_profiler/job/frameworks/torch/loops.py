"""Record the loops of Lightning, transformers and stable-baselines3: ends of steps, evaluations and rollouts.

A script that uses Accelerate has a loop of its own. It needs no hook here, because Accelerate's optimizers call
PyTorch's optimizers, which ms-profiler records.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Target
from ms_profiler.job.frameworks.torch import callbacks
from ms_profiler.store.format import Category, StepSource

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

TRAINER = "transformers.trainer"
CALLBACKS = "transformers.trainer_callback"
#: copy of a member of an enumeration, because to look it up takes 2 us while the processor's caches are cold
FRAMEWORK_LOOP = StepSource.FRAMEWORK_LOOP


class Loops:
    """Follow which loop runs and report its steps; batches of an evaluation during training are no steps."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self.running = 0

    def trains(self, name: str, script: Callable[[Any], Iterable[Any]]) -> base.Closure:
        """Return a decorator for a function that runs a whole training loop.

        Args:
            name: the name of the span that each call gets.
            script: called with the instance; returns the callbacks of its loop.
        """
        steps, methods = self.host.steps, callbacks.methods(self.host)

        def began(loop: Any) -> None:
            self.running += 1
            steps.loop_began()
            with self.host.guard("wrapping callbacks"):  # if this fails, the end of the loop still has to be noted
                methods.began(loop, script(loop))

        def ended(loop: Any) -> None:
            self.running -= 1
            steps.loop_ended()
            methods.ended(loop)

        return self._around(name, Category.RUN, lambda: True, began, ended)

    def evaluates(self, name: str) -> base.Closure:
        """Return a decorator for a function that runs an evaluation, during training or without training.

        In a job that only evaluates, each batch or each call of the network is a step.
        """
        steps = self.host.steps
        applies = lambda: bool(self.running or steps.trains)  # noqa: E731
        return self._around(name, Category.EVALUATION, applies, lambda _: steps.suspend(), lambda _: steps.resume())

    def collects(self, name: str) -> base.Closure:
        """Return a decorator for a rollout, which plays in an environment to collect training data.

        ms-profiler begins the next step at the end of the rollout. It cannot wait for the first call of a network:
        training may begin with a call of a target network, and this call does not begin a step.
        """
        steps, now = self.host.steps, self.host.recorder.now

        def ended(_: Any) -> None:
            steps.resume()
            steps.began(now())

        return self._around(name, Category.ROLLOUT, lambda: True, lambda _: steps.suspend(), ended)

    def _around(
        self,
        name: str,
        category: Category,
        applies: Callable[[], bool],
        began: Callable[[Any], None],
        ended: Callable[[Any], None],
    ) -> base.Closure:
        """Return a decorator for a function that runs a loop.

        Args:
            name: the name of the span that each call gets.
            category: the category of the span.
            applies: called at the begin of a call; returns whether `began` and `ended` are called for this call.
            began: called at the begin of the call, with its first argument. It reports the loop to `Steps`, which
                decides where steps end.
            ended: called at the end of the call, with its first argument, also after an exception. It reports the end
                of the loop to `Steps`.
        """
        host = self.host
        recorder, label = host.recorder, host.recorder.intern(name)

        def before(*given: Any, **_: Any) -> tuple[int, bool, Any]:
            notify, first = applies(), given[0] if given else None
            token = recorder.begin(label, category)
            if notify:
                began(first)
            return token, notify, first

        def after(call: tuple[int, bool, Any], result: Any, reason: BaseException | None) -> None:
            recorder.end(call[0], 0 if reason is None else RAISED)
            if call[1]:
                ended(call[2])

        return base.around(host, "following a loop", before, after)

    def step_ended(self, counts: Callable[[Any], bool]) -> base.Closure:
        """Return a decorator for the last method that a loop calls in a step.

        Args:
            counts: called with the instance after the method has returned; returns whether the step has ended.
        """
        steps, now = self.host.steps, self.host.recorder.now

        def mark(loop: Any) -> None:
            if self.running and counts(loop):
                steps.ended(FRAMEWORK_LOOP, now())

        return base.following(self.host, "marking a step", mark)


def trainer(host: "Host") -> list[Target]:
    """Return the functions of the Trainer of transformers to wrap; its step ends later than the optimizer's step."""
    loops = Loops(host)
    return [
        Target(TRAINER, "Trainer._inner_training_loop", closure=loops.trains("Trainer.train", callbacks.of_trainer)),
        Target(TRAINER, "Trainer.evaluation_loop", closure=loops.evaluates("Trainer.evaluate")),
        Target(CALLBACKS, "CallbackHandler.on_step_end", closure=loops.step_ended(lambda handler: True)),
    ]


def _collecting(module: str, host: "Host") -> list[Target]:
    """Return the function to wrap: the one that collects training data in a module of stable-baselines3."""
    collects = Loops(host).collects("collect_rollouts")
    return [Target(module, f"{ROLLOUTS[module]}.collect_rollouts", closure=collects)]


def _evaluating(host: "Host") -> list[Target]:
    """Return the function to wrap: the one in stable-baselines3 that evaluates a policy."""
    return [Target(POLICY, "evaluate_policy", closure=Loops(host).evaluates("evaluate_policy"))]


def _lightning(package: str) -> Callable[["Host"], list[Target]]:
    module = f"{package}.loops"

    def targets(host: "Host") -> list[Target]:
        """Return the functions of Lightning's loops to wrap; a batch that only accumulates gradients is no step."""
        loops = Loops(host)
        ended = loops.step_ended(lambda loop: not loop._should_accumulate())
        return [
            Target(f"{module}.fit_loop", "_FitLoop.run", closure=loops.trains("Trainer.fit", callbacks.of_fit_loop)),
            Target(f"{module}.evaluation_loop", "_EvaluationLoop.run", closure=loops.evaluates("Trainer.validate")),
            Target(f"{module}.training_epoch_loop", "_TrainingEpochLoop.advance", closure=ended),
        ]

    return targets


#: module of stable-baselines3 -> the class whose method collects training data
ROLLOUTS = {
    "stable_baselines3.common.on_policy_algorithm": "OnPolicyAlgorithm",
    "stable_baselines3.common.off_policy_algorithm": "OffPolicyAlgorithm",
}
POLICY = "stable_baselines3.common.evaluation"

#: module -> function that returns the functions of a loop to wrap. It is called after the import of the module.
LATER = {
    TRAINER: trainer,
    POLICY: _evaluating,
    **{module: partial(_collecting, module) for module in ROLLOUTS},
    **{f"{package}.loops.fit_loop": _lightning(package) for package in ("lightning.pytorch", "pytorch_lightning")},
}
