"""Engines run the work for many ranks: in this process and its child processes, or on the workers of a Dask scheduler.

All engines offer the same two operations: yield the results of tasks in their order, and reduce results in a tree.
"""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Final, Protocol

from ms_profiler.analysis.driver import cpus

#: largest number of results that one node of the tree reduces
WIDTH: Final = 8
#: number of short tasks from which on child processes repay their start and their transfers: four tasks, of 64 ranks of
#: 40 steps,
#: take 3.5 s in two processes and 2.2 s in one; 64 of them, of 1,024 ranks of 10 steps, take 13.3 s and 13.4 s
MANY: Final = 64
#: number of tasks per process that are submitted ahead of the task whose result is next
AHEAD: Final = 2
#: how often a task is tried again after its worker was lost
LOSSES: Final = 3
#: Polars' threads do not survive a fork
_CONTEXT: Final = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Task:
    """One piece of work that needs no other task's result.

    Attributes:
        name: the name that messages use for the task.
        work: the function to call, defined at the top of a module so that it can be pickled.
        argument: the function's argument.
        long: whether the task takes seconds.
    """

    name: str
    work: Callable[[Any], Any]
    argument: Any
    long: bool = False


@dataclass(frozen=True)
class Lost:
    """The result of a task whose workers were all lost.

    Attributes:
        name: the name of the task.
        why: the reason, in words.
    """

    name: str
    why: str


class Engine(Protocol):
    """The interface of an engine, which runs tasks."""

    def __enter__(self) -> "Engine":
        """Start the engine."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the engine."""

    def each(self, tasks: Iterable[Task]) -> Iterator[Any]:
        """Yield the results in the order of the tasks, and a `Lost` for each task whose workers were lost."""

    def reduced(self, tasks: Sequence[Task], join: Callable[[list[Any]], Any]) -> Any:
        """Return all results reduced in a tree by `join`, which gets at most `WIDTH` of them at a time, in order."""


class Local:
    """Run tasks in this process, or in child processes where there is much to do."""

    def __init__(self, processes: int | None = None) -> None:
        """Choose the number of processes.

        Args:
            processes: the largest number of processes; 1 uses this process alone; None uses one for each processor.
        """
        self._most = cpus.usable() if processes is None else processes
        self._forced = processes is not None and processes > 1
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Local":
        """Start nothing: `each` starts the child processes when they are worthwhile."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child processes."""
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
        """Return all results combined by `join`."""
        results = list(self.each(tasks))
        while len(results) > 1:
            results = [join(results[first : first + WIDTH]) for first in range(0, len(results), WIDTH)]
        return join(results)

    def _worthwhile(self, count: int, long: int) -> bool:
        """Return whether child processes are worthwhile and possible: a main script without `__main__` guard forbids
        them."""
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
        """Run a task again, alone in a process, after it or a task beside it had lost its process; return its
        result."""
        self._pool = None
        for _ in range(LOSSES):
            # no pool: a pool of one whose process ended at once left its task waiting for ever (CPython 3.11)
            reader, writer = _CONTEXT.Pipe(duplex=False)
            process = _CONTEXT.Process(target=_answer, args=(writer, task))
            process.start()
            writer.close()
            try:
                done, answer = reader.recv()
            except EOFError:
                continue
            finally:
                reader.close()
                process.join()
            if not done:
                raise answer
            return answer
        return Lost(task.name, f"the process that read it was killed {LOSSES + 1} times")


def _answer(writer: Connection, task: Task) -> None:
    """Send whether a task ended, and its result or its exception."""
    try:
        answer = True, task.work(task.argument)
    except Exception as error:  # noqa: BLE001 - the process that waits raises it
        answer = False, error
    writer.send(answer)


def _processes(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, _CONTEXT)
