"""Record how long the job waits for batches, in loops of `Model` or of the script, and other work for datasets.

MindSpore has two kinds of loaders, and this module wraps both: the iterators of `mindspore.dataset`, and `DataLoader`.
The workers of a `DataLoader` are separate processes. Each worker records how it fetches batches.
"""

from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import Inside, Target
from ms_profiler.store.format import Category
from ms_profiler.store.names import DATA_WAIT, ITERATOR

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

DATASETS = "mindspore.dataset.engine.datasets"
FETCHERS = "mindspore.dataset.dataloader._utils.fetch"


#: whether this thread waits for a batch
fetching = Inside()


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: functions of datasets and loaders."""
    recorder, steps = host.recorder, host.steps
    begin, end, now, inside = recorder.begin, recorder.end, recorder.now, fetching

    def describe(iterator: Any) -> tuple[int, int, int]:
        # An `Iterator` has two datasets: `dataset` is a copy, which it reads, and the other attribute is the original.
        held = trees.attributes(iterator)
        dataset = held.get("_Iterator__ori_dataset", held.get("dataset"))
        kind = trees.kind_name(iterator if dataset is None else dataset)
        return recorder.intern(f"{DATA_WAIT}{kind}"), int(Category.DATA), recorder.intern(trees.kind_name(iterator))

    labels: base.Labels[tuple[int, int, int]] = base.Labels(describe)
    known = labels.known

    def before(iterator: Any) -> list[int] | None:
        if inside.value:  # a loader reads from another loader: the wait of the outer loader includes this wait
            return None
        steps.batch_began(now())
        token = begin(*(known.get(id(iterator)) or labels.add(iterator)))
        inside.value = True
        return [token]

    def after(tokens: list[int], result: Any, reason: BaseException | None) -> None:
        inside.value = False
        end(tokens[0])
        if issubclass(type(reason), StopIteration):
            steps.batches_ended()

    waits = base.around(host, "noting the wait for a batch", before, after)
    create = base.recorded(host, ITERATOR, Category.DATA)
    fetch = base.recorded(host, "fetch batch", Category.DATA)
    return [
        Target("mindspore.dataset.engine.iterators", "Iterator.__next__", closure=waits),
        Target("mindspore.dataset.dataloader.dataloader", "_Iterator.__next__", closure=waits),
        Target(FETCHERS, "MapDatasetFetcher.fetch", closure=fetch),
        Target(FETCHERS, "IterableDatasetFetcher.fetch", closure=fetch),
        Target(DATASETS, "Dataset.create_tuple_iterator", closure=create),
        Target(DATASETS, "Dataset.create_dict_iterator", closure=create),
        Target(DATASETS, "TransferDataset.send", closure=base.recorded(host, "send dataset", Category.DATA)),
    ]
