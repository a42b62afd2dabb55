"""Count the parameters of each module, and their bytes."""

from typing import Final

import polars as pl

from ms_profiler.analysis.readers.networks import Network

SIZES: Final = pl.Schema({"module": pl.String, "parameters": pl.Int64, "parameter_bytes": pl.Int64})
NOT_KEPT: Final = "no network was stored: no call of a network was followed by the end of a step"
SEVERAL: Final = "several networks with different parameters had the same title"
OWN_CLASSES: Final = "some parameters are of special classes and may be parts of tensors"


def of(modules: list[str], networks: list[Network]) -> tuple[pl.DataFrame, str]:
    """Return number and bytes of each module's parameters, with the columns of `SIZES`, and reasons for unknown values.

    Unknown values are null. If several modules share a parameter, it counts once in each of these modules.

    Args:
        modules: paths of modules.
        networks: the networks of the processes that called these modules.
    """
    if not networks:
        return _table([(module, None, None) for module in modules]), NOT_KEPT
    reasons: dict[str, None] = {}
    rows: list[tuple[str, int | None, int | None]] = []
    for module in modules:
        title, *below = module.split(".")
        places = [(network, network.find(below)) for network in networks if network.title == title]
        places += [(network, network.find([title, *below])) for network in networks if not network.title]
        sizes = {network.parameters(place) for network, place in places if place is not None}
        size = next(iter(sizes)) if len(sizes) == 1 else None
        if size is None and sizes:
            reasons[OWN_CLASSES if None in sizes else SEVERAL] = None
        rows.append((module, *(size or (None, None))))
    return _table(rows), "; ".join(reasons)


def _table(rows: list[tuple[str, int | None, int | None]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SIZES, orient="row")
