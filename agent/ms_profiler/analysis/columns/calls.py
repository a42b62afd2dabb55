"""Find the module of each operator, and which operators contain others, as native/columns/calls.c does.

One pass goes over the operators and modules of each thread in order of start. It takes 2 us per operator or module.
"""

from dataclasses import dataclass, field
from itertools import zip_longest

import polars as pl

from ms_profiler.store.format import Category


def calls(
    order: pl.Series, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series, category: pl.Series, name: pl.Series
) -> pl.DataFrame:
    """Return `module` and `inner` of each span, as `Columns.calls` describes them.

    Args:
        order: the rows of the spans in the order of lane and start, from `Columns.order`.
        lane: the lane of each span. The remaining arguments also have a value for each span.
    """
    rows: dict[int, list[int]] = {}
    lanes = lane.to_list()
    for row in order:
        rows.setdefault(lanes[row], []).append(row)
    found = _Calls(start_ns.to_list(), end_ns.to_list(), category.to_list(), name.to_list())
    for own in rows.values():
        found.take(own)
    return pl.DataFrame(
        [
            pl.Series("module", found.module, dtype=pl.UInt32),
            pl.Series("inner", found.inner, dtype=pl.Boolean),
        ]
    )


@dataclass
class _Calls:
    starts: list[int]
    ends: list[int]
    categories: list[int]
    names: list[int]
    module: list[int | None] = field(init=False)
    inner: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        self.module = [None] * len(self.starts)
        self.inner = [False] * len(self.starts)

    def take(self, rows: list[int]) -> None:
        """Compute both columns for the spans of one thread, which come in order of start."""
        operators = [row for row in rows if self.categories[row] == Category.OP]
        self._modules(operators, [row for row in rows if self.categories[row] == Category.MODULE])
        for row, after in zip_longest(operators, operators[1:]):
            self.inner[row] = after is None or self.starts[after] >= max(self.ends[row], self.starts[row] + 1)

    def _modules(self, operators: list[int], modules: list[int]) -> None:
        waiting = [row for row in reversed(modules) if self.ends[row] > self.starts[row]]
        around: list[tuple[int, int]] = []  # (end, name) of each open module
        for row in operators:
            moment = self.starts[row]
            while waiting and self.starts[waiting[-1]] <= moment:
                module = waiting.pop()
                while around and around[-1][0] <= self.starts[module]:
                    around.pop()
                end = min(self.ends[module], around[-1][0]) if around else self.ends[module]
                around.append((end, self.names[module]))
            while around and around[-1][0] <= moment:
                around.pop()
            self.module[row] = around[-1][1] if around else None
