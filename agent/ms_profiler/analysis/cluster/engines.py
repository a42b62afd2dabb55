"""Where the work for many ranks runs: in this process and some of its own, or on the workers of a Dask scheduler.

The work is the same for all engines: tasks, one after the other in their results, and a tree that reduces results.
"""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol

from ms_profiler.analysis.driver import cpus

#: results that a node of the tree reduces
WIDTH: Final = 8
#: short tasks from which on processes are worth their start and what they send: four tasks, of 64 ranks of 40 steps,
#: take 3.5 s in two processes and 2.2 s in one; 64 of them, of 1,024 ranks of 10 steps, take 13.3 s and 13.4 s
MANY: Final = 64
#: tasks ahead of the one whose result is waited for, by process
AHEAD: Final = 2
#: how often a task may lose its worker
LOSSES: Final = 3


@dataclass(frozen=True)
class Task:
    """Some work that stands alone.

    Attributes:
        name: for people.
        work: a function of a module.
        argument: of it.
        long: it takes seconds.
    """

    name: str
    work: Callable[[Any], Any]
    argument: Any
    long: bool = False


@dataclass(frozen=True)
class Lost:
    """In place of a result: each worker that ran the task was lost.

    Attributes:
        name: of the task.
        why: in words.
    """

    name: str
    why: str


class Engine(Protocol):
    """Something that runs tasks."""

    def __enter__(self) -> "Engine":
        """Start."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""

    def each(self, tasks: Iterable[Task]) -> Iterator[Any]:
        """Yield the results in the order of the tasks, each one a `Lost` where its workers were lost."""

    def reduced(self, tasks: Sequence[Task], join: Callable[[list[Any]], Any]) -> Any:
        """Return what `join` makes of all results, in a tree; it gets `WIDTH` of them at most, in their order."""


class Local:
    """This process, and others of this machine where there is much to do."""

    def __init__(self, processes: int | None = None) -> None:
        """Choose the number of processes.

        Args:
            processes: at most; 1 for this one alone; None for as many as there are processors.
        """
        self._most = cpus.usable() if processes is None else processes
        self._forced = processes is not None and processes > 1
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Local":
        """Start nothing: processes start with the first task of many."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def each(self, tasks: Iterable[Task]) -> Iterator[Any]:
        """Yield the results in the order of the tasks."""
        known = list(tasks)
        if not self._worthwhile(len(known), sum(task.long for task in known)):
            yield from (task.work(task.argument) for task in known)
            return
        waiting = deque(known)
        running: deque[tuple[Task, Future[Any]]] = deque()
        while waiting or running:
            while waiting and len(running) < AHEAD * self._most:
                running.append(self._submit(waiting.popleft()))
            task, future = running.popleft()
            try:
                yield future.result()
            except BrokenProcessPool:
                yield self._again(task)
                running = deque(self._submit(later) for later, _ in running)

    def reduced(self, tasks: Sequence[Task], join: Callable[[list[Any]], Any]) -> Any:
        """Return what `join` makes of all results."""
        results = list(self.each(tasks))
        while len(results) > 1:
            results = [join(results[first : first + WIDTH]) for first in range(0, len(results), WIDTH)]
        return join(results)

    def _worthwhile(self, count: int, long: int) -> bool:
        """Return whether processes are to be used, and can be: a script without a guard for that starts none."""
        if self._most < 2 or (count < MANY and long < 2 and not self._forced):
            return False
        if self._pool is None:
            pool = _processes(self._most)
            try:
                pool.submit(abs, 0).result()
            except BrokenProcessPool:
                self._most = 1
                return False
            self._pool = pool
        return True

    def _submit(self, task: Task) -> tuple[Task, Future[Any]]:
        if self._pool is None:
            self._pool = _processes(self._most)
        try:
            return task, self._pool.submit(task.work, task.argument)
        except BrokenProcessPool:
            self._pool = None
            return self._submit(task)

    def _again(self, task: Task) -> Any:
        """Return the result of a task whose processes were lost, or of one beside it: now it runs alone."""
        self._pool = None
        for _ in range(LOSSES):
            with _processes(1) as alone:
                try:
                    return alone.submit(task.work, task.argument).result()
                except BrokenProcessPool:
                    continue
        return Lost(task.name, f"the process that read it was killed {LOSSES + 1} times")


def _processes(count: int) -> ProcessPoolExecutor:
    # Polars' threads do not survive a fork
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))
