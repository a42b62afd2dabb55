"""The wait for each batch, in Model loops and in custom ones, and what else the host does for a dataset.

The waits are those of both kinds of loaders: the iterators of `mindspore.dataset`, and `DataLoader`, whose workers are
processes of their own and record what they fetch.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Inside, Labels, Target, keep_signature, span
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

DATASETS = "mindspore.dataset.engine.datasets"
FETCHERS = "mindspore.dataset.dataloader._utils.fetch"


#: whether this thread is waiting for a batch
fetching = Inside()


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around datasets."""
    recorder = session.recorder
    begin, end, now = recorder.begin, recorder.end, recorder.now
    inside = fetching

    def describe(iterator: Any) -> tuple[int, int, int]:
        # the second iterates over a copy, and has the original under another name
        dataset = getattr(iterator, "_Iterator__ori_dataset", getattr(iterator, "dataset", None))
        kind = type(iterator if dataset is None else dataset).__name__
        return recorder.intern(f"wait for {kind}"), int(Category.DATA), recorder.intern(type(iterator).__name__)

    labels: Labels[tuple[int, int, int]] = Labels(describe)

    known = labels.known

    def waits(original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(self: Any) -> Any:
            if inside.value:  # a loader that reads from another is one wait
                return original(self)
            token = 0
            try:  # no guard: it takes a microsecond, and this is done every step
                session.steps.batch_began(now())
                token = begin(*(known.get(id(self)) or labels.add(self)))
            except Exception as reason:  # noqa: BLE001
                session.failed("noting the wait for a batch", reason)
            inside.value = True
            try:
                result = original(self)
            except BaseException as reason:
                end(token)
                if isinstance(reason, StopIteration):
                    with session.guard("noting the end of a dataset"):
                        session.steps.batches_ended()
                raise
            finally:
                inside.value = False
            end(token)
            return result

        return keep_signature(original, wait)

    create = span(session, "create iterator", Category.DATA)
    fetch = span(session, "fetch batch", Category.DATA)
    return [
        Target("mindspore.dataset.engine.iterators", "Iterator.__next__", closure=waits),
        Target("mindspore.dataset.dataloader.dataloader", "_Iterator.__next__", closure=waits),
        Target(FETCHERS, "MapDatasetFetcher.fetch", fetch),
        Target(FETCHERS, "IterableDatasetFetcher.fetch", fetch),
        Target(DATASETS, "Dataset.create_tuple_iterator", create),
        Target(DATASETS, "Dataset.create_dict_iterator", create),
        Target(DATASETS, "TransferDataset.send", span(session, "send dataset", Category.DATA)),
    ]
