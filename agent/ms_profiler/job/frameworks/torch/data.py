"""The wait for each batch, and what workers fetch.

The iterators' `_next_data` is what waits; `__next__` around it warns in the name of its caller. Workers are processes
of their own and record what they fetch.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import RAISED, Labels, Target
from ms_profiler.job.frameworks.torch import closures
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

LOADER = "torch.utils.data.dataloader"
FETCH = "torch.utils.data._utils.fetch"


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around data loaders."""
    recorder, tracing = session.recorder, closures.traced()
    begin, end, now, category = recorder.begin, recorder.end, recorder.now, int(Category.DATA)

    def describe(iterator: Any) -> tuple[int, int, int]:
        kind = type(getattr(iterator, "_dataset", iterator)).__name__
        return recorder.intern(f"wait for {kind}"), category, recorder.intern(type(iterator).__name__)

    labels: Labels[tuple[int, int, int]] = Labels(describe)
    known = labels.known

    def waits(original: Callable[..., Any]) -> Callable[..., Any]:
        def _next_data(self: Any) -> Any:
            if tracing():
                return original(self)
            token = 0
            try:  # no guard: it takes a microsecond, and this is done every step
                session.steps.batch_began(now())
                token = begin(*(known.get(id(self)) or labels.add(self)))
            except Exception as reason:  # noqa: BLE001
                session.failed("noting the wait for a batch", reason)
            try:
                result = original(self)
            except StopIteration:
                end(token)
                with session.guard("noting the end of a dataset"):
                    session.steps.batches_ended()
                raise
            except BaseException:
                end(token, RAISED)
                raise
            end(token)
            return result

        return closures.replace(original, _next_data)

    create = closures.recorded(session, "create iterator", category)
    fetch = closures.recorded(session, "fetch batch", category)
    return [
        Target(LOADER, "_SingleProcessDataLoaderIter._next_data", closure=waits),
        Target(LOADER, "_MultiProcessingDataLoaderIter._next_data", closure=waits),
        Target(LOADER, "DataLoader._get_iterator", closure=create),
        Target(FETCH, "_MapDatasetFetcher.fetch", closure=fetch),
        Target(FETCH, "_IterableDatasetFetcher.fetch", closure=fetch),
    ]
