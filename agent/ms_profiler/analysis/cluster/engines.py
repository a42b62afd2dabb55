"""Engines, which run work for many ranks: in this process and its children, or on the workers of a Dask scheduler.

All engines offer two operations: they yield the results of tasks in order, or reduce the results in a tree.
"""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Final, Protocol

from ms_profiler.analysis.driver import cpus

#: results are reduced in a tree; this is the largest number of results that one node of the tree reduces to one
WIDTH: Final = 8
#: child processes are worthwhile only from this number of short tasks on. Four tasks (64 ranks with 40 steps) take
#: 3.5 s in two processes and 2.2 s in one. 64 tasks (1,024 ranks with 10 steps) take 13.3 s in two and 13.4 s in one
MANY: Final = 64
#: for each process, at most this number of tasks is submitted before the next result is yielded
AHEAD: Final = 2
#: number of times that a task is tried again after its worker was lost
LOSSES: Final = 3
#: child processes are spawned and not forked, because Polars' threads do not survive a fork
_CONTEXT: Final = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Task:
    """One piece of work that does not need the result of another task.

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
    """The result in place of a task's own result if all workers that tried the task were lost.

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
        """Yield the results in the order of the tasks. A task whose workers were all lost has the result `Lost`."""

    def reduced(self, tasks: Sequence[Task], join: Callable[[list[Any]], Any]) -> Any:
        """Return all results reduced to one in a tree. `join` combines at most `WIDTH` results at a time, in order."""


class Local:
    """Runs tasks in this process, or in child processes if there are many tasks or long tasks.

    This class does not use the process pool of the standard library, because a broken pool may hang. While the pool
    ends its processes, it may start another process, which then waits for ever. In each of 24 runs under load, we
    killed one process of the pool. One of these runs did not end (CPython 3.11.7).
    """

    def __init__(self, processes: int | None = None) -> None:
        """Choose the number of processes.

        Args:
            processes: the largest number of processes. 1 uses only this process; None uses one for each processor.
        """
        self._most = cpus.usable() if processes is None else processes
        self._forced = processes is not None and processes > 1
        self._workers: list[_Worker] = []

    def __enter__(self) -> "Local":
        """Start nothing. `each` starts the child processes if they are worthwhile."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child processes."""
        for worker in self._workers:
            worker.end()

    def each(self, tasks: Iterable[Task]) -> Iterator[Any]:
        """Yield the results in the order of the tasks."""
        known = list(tasks)
        if not self._worthwhile(len(known), sum(task.long for task in known)):
            yield from (task.work(task.argument) for task in known)
            return
        waiting, losses = deque(range(len(known))), [0] * len(known)
        found: dict[int, Any] = {}
        running: dict[_Worker, int] = {}
        for place in range(len(known)):
            while place not in found:
                for worker in self._workers:
                    if worker not in running and waiting and waiting[0] < place + AHEAD * self._most:
                        running[worker] = waiting.popleft()
                        worker.begin(known[running[worker]])
                ready = wait([worker.pipe for worker in running])
                for worker in [each for each in running if each.pipe in ready]:
                    done = running.pop(worker)
                    try:
                        found[done] = worker.answer()
                    except LostWorkerError:
                        self._workers[self._workers.index(worker)] = _Worker()
                        losses[done] += 1
                        if losses[done] <= LOSSES:
                            waiting.appendleft(done)
                        else:
                            why = f"the process that read it was killed {losses[done]} times"
                            found[done] = Lost(known[done].name, why)
            result = found.pop(place)
            if isinstance(result, _Raised):
                raise result.error
            yield result

    def reduced(self, tasks: Sequence[Task], join: Callable[[list[Any]], Any]) -> Any:
        """Return all results combined by `join`."""
        results = list(self.each(tasks))
        while len(results) > 1:
            results = [join(results[first : first + WIDTH]) for first in range(0, len(results), WIDTH)]
        return join(results)

    def _worthwhile(self, count: int, long: int) -> bool:
        """Return whether to use child processes for `count` tasks, of which `long` are long; if so, start them.

        Child processes cannot start if the main script has no `__main__` guard. Then the answer is no, and this process
        runs the tasks.
        """
        if self._most < 2 or (count < MANY and long < 2 and not self._forced):
            return False
        if not self._workers:
            self._workers = [_Worker() for _ in range(self._most)]
            try:
                for worker in self._workers:
                    worker.begin(Task("", abs, 0))
                    worker.answer()
            except LostWorkerError:
                self.__exit__()
                self._workers, self._most = [], 1
                return False
        return True


class LostWorkerError(Exception):
    """A child process ended before it answered."""


@dataclass(frozen=True)
class _Raised:
    """The exception that a task raised in its process."""

    error: Exception


class _Worker:
    """A child process that runs one task at a time.

    Attributes:
        pipe: the connection to the process. It has data to read when the process has answered or ended.
    """

    def __init__(self) -> None:
        """Start the process."""
        self.pipe, other = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def begin(self, task: Task) -> None:
        """Give the process a task. If the process has ended, `answer` notices it."""
        with suppress(OSError):
            self.pipe.send(task)

    def answer(self) -> Any:
        """Return the result of the task. If the task raised an exception, return it as `_Raised`.

        Raises:
            LostWorkerError: the process has ended.
        """
        try:
            return self.pipe.recv()
        except (EOFError, OSError) as error:
            self.end()
            raise LostWorkerError from error

    def end(self) -> None:
        """End the process."""
        self.pipe.close()
        self._process.terminate()
        self._process.join()


def _serve(pipe: Connection) -> None:
    """Run tasks until the other end of the pipe is closed."""
    with suppress(EOFError, OSError):
        while True:
            task = pipe.recv()
            try:
                pipe.send(task.work(task.argument))
            except Exception as error:  # noqa: BLE001 - the parent process raises it
                pipe.send(_Raised(error))
