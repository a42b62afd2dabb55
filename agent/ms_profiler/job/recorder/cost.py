"""Measure the cost of recording a span on this machine."""

from collections.abc import Callable

ROUNDS = 5
PAIRS = 200


def pair_cost(begin: Callable[[int, int], int], end: Callable[[int], None], now: Callable[[], int]) -> float:
    """Measure the time of one `begin` and one `end`: the median over five rounds, without the time of the loop.

    Args:
        begin: begins a span, in a store that nobody reads.
        end: ends that span.
        now: returns the time of a clock in nanoseconds.

    Returns:
        Nanoseconds per pair, at least 0.
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
