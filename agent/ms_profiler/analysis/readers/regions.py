"""Recognize regions of PyTorch's compiler that PyTorch reports as operators.

Dynamo reports the phases of a compilation as if they were operators. For example, the phase `gc` has three spans: the
outer span `gc` contains `gc (dynamo_timed)`, and `gc_data: compile_id=0/0` with details. Source: `dynamo_timed` and
`ChromiumEventLogger` in torch/_dynamo/utils.py.
"""

from typing import Final

import polars as pl

_TIMED: Final = r" \(dynamo_timed\)$"
_DETAILED: Final = r"^(\w+)_data: "


def regions(names: pl.Series) -> pl.Series:
    """Return, for each name, whether it is the name of a region.

    Args:
        names: names of spans that are reported as operators or as regions of the user.
    """
    detailed = names.str.extract(_DETAILED).drop_nulls().unique()
    return names.str.contains(_TIMED) | names.str.contains(_DETAILED) | names.is_in(detailed.implode())
