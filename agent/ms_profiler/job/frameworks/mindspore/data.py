"""The wait for each batch, in Model loops and in custom ones."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Labels, Target
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around datasets."""
    recorder = session.recorder
    begin, end, now = recorder.begin, recorder.end, recorder.now

    def describe(iterator: Any) -> tuple[int, int, int]:
        dataset = getattr(iterator, "_Iterator__ori_dataset", None)
        kind = type(iterator if dataset is None else dataset).__name__
        return recorder.intern(f"wait for {kind}"), int(Category.DATA), recorder.intern(type(iterator).__name__)

    labels: Labels[tuple[int, int, int]] = Labels(describe)

    def wait(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        token = 0
        with session.guard("noting the wait for a batch"):
            session.steps.batch_began(now())
            token = begin(*(labels.known.get(id(instance)) or labels.add(instance)))
        try:
            result = wrapped(*args, **kwargs)
        except BaseException as reason:
            end(token)
            if isinstance(reason, StopIteration):
                with session.guard("noting the end of a dataset"):
                    session.steps.batches_ended()
            raise
        end(token)
        return result

    return [Target("mindspore.dataset.engine.iterators", "Iterator.__next__", wait)]
