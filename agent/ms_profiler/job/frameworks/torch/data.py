"""Record how long the job waits for batches of a `DataLoader`, and the work of the loader's workers.

An iterator of a loader waits in its method `_next_data`, so this method is wrapped. Its caller `__next__` is not
wrapped: `__next__` issues warnings that name the line of its own caller, and this would be a line of ms-profiler.

Workers are separate processes. Each worker records a span for the fetch of a batch, and in it a span for the collation.
"""

from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import Labels, Target
from ms_profiler.job.recorder.shortcut import Shortcut, Usual
from ms_profiler.store.format import Category
from ms_profiler.store.names import DATA_WAIT, FETCHED, ITERATOR, WORKERS_END

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

LOADER = "torch.utils.data.dataloader"
FETCH = "torch.utils.data._utils.fetch"


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: functions of data loaders and of their workers."""
    recorder, steps, category = host.recorder, host.steps, int(Category.DATA)
    begin, end, now = recorder.begin, recorder.end, recorder.now

    def describe(iterator: Any) -> tuple[int, int, int]:
        kind = trees.kind_name(trees.attributes(iterator).get("_dataset", iterator))
        return recorder.intern(f"{DATA_WAIT}{kind}"), category, recorder.intern(trees.kind_name(iterator))

    labels: Labels[tuple[int, int, int]] = Labels(describe)
    known = labels.known

    def before(iterator: Any) -> list[int]:
        steps.batch_began(now())
        return [begin(*(known.get(id(iterator)) or labels.add(iterator)))]

    def after(tokens: list[int], result: Any, reason: BaseException | None) -> None:
        end(tokens[0], 0 if reason is None else base.flags_of(reason))
        if issubclass(type(reason), StopIteration):
            steps.batches_ended()

    usual = Shortcut(Usual.WAIT, steps, known, None, 0, category)
    waits = base.around(host, "noting the wait for a batch", before, after, shortcut=usual)

    def collate(fetcher: Any) -> None:
        fetcher.collate_fn = collating(fetcher.collate_fn)

    create = base.recorded(host, ITERATOR, category)
    ends = base.recorded(host, WORKERS_END, category)
    fetch, collating = base.recorded(host, FETCHED, category), base.recorded(host, "collate batch", category)
    return [
        Target(LOADER, "_SingleProcessDataLoaderIter._next_data", closure=waits),
        Target(LOADER, "_MultiProcessingDataLoaderIter._next_data", closure=waits),
        Target(LOADER, "DataLoader._get_iterator", closure=create),
        Target(LOADER, "_MultiProcessingDataLoaderIter._shutdown_workers", closure=ends),
        Target(FETCH, "_BaseDatasetFetcher.__init__", closure=base.following(host, "noting collations", collate)),
        Target(FETCH, "_MapDatasetFetcher.fetch", closure=fetch),
        Target(FETCH, "_IterableDatasetFetcher.fetch", closure=fetch),
    ]
