"""An engine that runs tasks on the workers of a Dask scheduler. If a worker is lost, another one repeats its tasks."""

import importlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ms_profiler.analysis.cluster.engines import AHEAD, WIDTH, Lost, Task
from ms_profiler.errors import DependencyError, StoreError

#: seconds to wait for the scheduler's answer before giving up
PATIENCE_S = 10


class Distributed:
    """A Dask scheduler, which has workers that import this package and see the files under the same paths."""

    def __init__(self, address: str) -> None:
        """Connect to the scheduler.

        Args:
            address: the address of the scheduler, as "tcp://HOST:8786".

        Raises:
            DependencyError: Dask is not installed.
            StoreError: no scheduler answers at the address.
        """
        try:
            # imported by name, because the type checker knows Dask's types only if Dask is installed
            distributed: Any = importlib.import_module("distributed")
        except ModuleNotFoundError as error:
            remedy = "Install it: pip install 'ms-profiler[dask]'."
            raise DependencyError(f"--engine dask needs Dask with its scheduler ({error}).", remedy) from error
        try:
            self._client = distributed.Client(address, timeout=PATIENCE_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise StoreError(
                f"No Dask scheduler answers at {address} ({error}).", "Start one: dask scheduler."
            ) from error
        self._killed = distributed.KilledWorker

    def __enter__(self) -> "Distributed":
        """Do nothing: `__init__` has connected already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect from the scheduler."""
        self._client.close()

    def each(self, tasks: Iterable[Task]) -> Iterator[Any]:
        """Yield the results in the order of the tasks.

        For each thread of the workers, at most `AHEAD` tasks are submitted before the next result is yielded.
        """
        most = AHEAD * max(sum(self._client.nthreads().values()), 1)
        running: deque[tuple[Task, Any]] = deque()
        for task in tasks:
            running.append((task, self._submit(task)))
            if len(running) >= most:
                yield self._result(*running.popleft())
        while running:
            yield self._result(*running.popleft())

    def reduced(self, tasks: Sequence[Task], join: Callable[[list[Any]], Any]) -> Any:
        """Return all results combined by `join`, which runs on the workers."""
        futures = [self._submit(task) for task in tasks]
        # a task that killed its workers gets the result `Lost`; without this, each `join` of its result would fail
        for place, (task, future) in enumerate(zip(tasks, futures, strict=True)):
            if isinstance(future.exception(), self._killed):
                futures[place] = self._client.submit(Lost, task.name, _why(future.exception()), pure=False)
        while len(futures) > 1:
            futures = [
                self._client.submit(join, futures[first : first + WIDTH], pure=False)
                for first in range(0, len(futures), WIDTH)
            ]
        return join([future.result() for future in futures])

    def _submit(self, task: Task) -> Any:
        return self._client.submit(task.work, task.argument, pure=False)

    def _result(self, task: Task, future: Any) -> Any:
        try:
            return future.result()
        except self._killed as error:
            return Lost(task.name, _why(error))


def _why(error: BaseException) -> str:
    return " ".join(str(error).split("\n")[0].split())
