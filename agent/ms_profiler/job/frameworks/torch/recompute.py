"""Activation checkpoints: the part of a backward pass that runs a block of the forward pass again.

With reentrance `CheckpointFunction.backward` computes again and then runs a backward pass of its own, which has its own
span; without, what computes again is a function that PyTorch makes for each block and keeps in its frame. Inside a
compiled region neither is called: there it is part of the compiled backward pass.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch import closures
from ms_profiler.job.frameworks.torch.modules import depth
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

MODULE = "torch.utils.checkpoint"


def _name(block: Any) -> str:
    """Name what is computed again by its class or function, through bound methods and partial functions."""
    for _ in range(4):
        inside = getattr(block, "__self__", None) or getattr(block, "func", None)
        if inside is None:
            break
        block = inside
    name: str = getattr(block, "__qualname__", "") or type(block).__name__
    return name


def _block(recompute: Any) -> Any:
    """Return the script's function in the closure that PyTorch made to compute it again."""
    for name, cell in zip(recompute.__code__.co_freevars, recompute.__closure__ or (), strict=True):
        if name == "fn":
            return cell.cell_contents
    return recompute


class Recomputation:
    """Record what is computed again, in which no call of a module is a forward pass."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        closures.unseen(Recomputation._run)

    def _run(self, block: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        recorder, token = self.session.recorder, 0
        with self.session.guard("naming a recomputation"):
            token = recorder.begin(recorder.intern(f"recompute {_name(block)}"), Category.BACKWARD)
        depth.value += 1
        try:
            result = function(*args, **kwargs)
        except BaseException as reason:
            recorder.end(token, closures.flags_of(reason))
            raise
        finally:
            depth.value -= 1
        recorder.end(token)
        return result

    def reentrant(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `CheckpointFunction.backward`."""

        def backward(ctx: Any, *args: Any) -> Any:
            return self._run(getattr(ctx, "run_function", original), original, (ctx, *args), {})

        return closures.replace(original, backward)

    def frame(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of what keeps the function that computes a block again."""

        def __init__(frame: Any, recompute_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:  # noqa: N807
            def again(*inputs: Any, **named: Any) -> Any:
                return self._run(_block(recompute_fn), recompute_fn, inputs, named)

            original(frame, again, *args, **kwargs)

        return closures.replace(original, __init__)


def targets(session: "Session") -> list[Target]:
    """Declare what computes again, with and without reentrance."""
    recomputation = Recomputation(session)
    return [
        Target(MODULE, "CheckpointFunction.backward", closure=recomputation.reentrant),
        Target(MODULE, "_CheckpointFrame.__init__", closure=recomputation.frame),
    ]
