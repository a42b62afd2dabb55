"""Each source is called at the step that it requested, even if other sources are called more often."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from ms_profiler.job.sources import NEVER, Sources


def guard(_: str) -> AbstractContextManager[None]:
    """Return a context that suppresses a source's error."""
    return suppress(ZeroDivisionError)


def every(steps: int, calls: list[int]) -> Callable[[int], tuple[int, bool]]:
    """Return a source that notes its calls and requests the next call after a number of steps."""

    def stepped(count: int) -> tuple[int, bool]:
        calls.append(count)
        return count + steps, False

    return stepped


def run(sources: Sources, steps: int) -> None:
    """Count steps and call the sources that are due, as a session does."""
    due = 0
    for count in range(1, steps + 1):
        if count >= due:
            due, _ = sources.stepped(count, not due)


def test_a_source_that_is_due_each_step_has_no_other_called() -> None:
    """In ten steps, one source is called ten times, and a source that wants every fourth step three times."""
    sources, often, seldom = Sources(guard), [], []  # type: ignore[var-annotated]
    sources.step += [every(1, often), every(4, seldom)]
    run(sources, 10)
    assert often == list(range(1, 11))
    assert seldom == [1, 5, 9]


def test_a_source_that_fails_is_not_due_again_by_itself() -> None:
    """A source that failed is called again only when all sources are called; the others continue."""
    sources, failed, calls = Sources(guard), [], []  # type: ignore[var-annotated]

    def fails(count: int) -> tuple[int, bool]:
        failed.append(count)
        return 1 // 0, False

    sources.step += [fails, every(2, calls)]
    run(sources, 6)
    assert failed == [1]
    assert calls == [1, 3, 5]
    assert sources.stepped(7, True) == (9, False)
    assert failed == [1, 7]


def test_a_source_that_was_dropped_is_forgotten() -> None:
    """If no source is left, no step is due."""
    sources, calls = Sources(guard), []  # type: ignore[var-annotated]
    sources.step.append(every(1, calls))
    run(sources, 2)
    sources.drop(list(sources.step))
    assert sources.stepped(3, True) == (NEVER, False)
    assert calls == [1, 2]


def test_a_switch_of_sampling_calls_only_the_sources_that_follow_it() -> None:
    """Where steps begin or cease to be sampled, a periodic source that is not due is left alone; others are called."""
    sources, follows, periodic = Sources(guard), [], []  # type: ignore[var-annotated]
    sources.step += [every(8, follows), every(8, periodic)]
    sources.periodic.append(sources.step[1])
    sources.stepped(1, True)
    assert sources.stepped(3, False, switched=True) == (9, False)
    assert (follows, periodic) == ([1, 3], [1])
    sources.stepped(5, True)
    assert (follows, periodic) == ([1, 3, 5], [1, 5])
    sources.drop([sources.step[1]])
    assert sources.periodic == []
