"""Measure the cost of recording a span on this machine."""

from collections.abc import Callable

ROUNDS = 5
PAIRS = 200


def pair_cost(begin: Callable[[int, int], int], end: Callable[[int], None], now: Callable[[], int]) -> float:
    """Measure the time of beginning and ending a span: the median over five rounds, without the time of the loop.

    Args:
        begin: begins a span, in memory or a file that nobody reads.
        end: ends that span.
        now: returns the time of a clock in nanoseconds.

    Returns:
        Nanoseconds for one call of `begin` and one call of `end`, at least 0.
    """
    costs = []
    for _ in range(ROUNDS):
        start = now()
        for _ in range(PAIRS):
            end(begin(1, 0))
        middle = now()
        for _ in range(PAIRS):
            pass
        costs.append(((middle - start) - (now() - middle)) / PAIRS)
    return max(sorted(costs)[ROUNDS // 2], 0.0)
