"""Read the memory addresses that tensors had after some steps. `job.frameworks.torch.tensor_places` notes them."""

from typing import Final

import polars as pl

from ms_profiler.analysis.model.clock import Clock
from ms_profiler.analysis.readers import side_files
from ms_profiler.store import layout
from ms_profiler.store.reader import ReadCounts

#: columns of the table of addresses; each noted address of a tensor is a row
PLACES: Final = pl.Schema({"time_ns": pl.Int64, "kind": pl.String, "module": pl.String, "address": pl.Int64})


def read(folder: str, clock: Clock, counts: ReadCounts) -> pl.DataFrame:
    """Return the addresses that a process noted, as `PLACES`, sorted by time; null for an unknown module.

    Args:
        folder: the folder of the process.
        clock: the clock of the recording.
        counts: receives the number of unreadable parts.
    """
    parts = [pl.DataFrame(schema=PLACES)]
    for path in layout.places(folder):
        try:
            with open(path, "rb") as stream:
                content = side_files.parsed(stream.read())
            time_ns = clock.epoch_ns(int(content["time_ns"]))
            rows = [
                (time_ns, str(kind), content["paths"][at] or None, int(place)) for kind, at, place in content["tensors"]
            ]
            parts.append(pl.DataFrame(rows, schema=PLACES, orient="row"))
        except (*side_files.DAMAGE, pl.exceptions.PolarsError) as error:
            counts.damaged_files.append((path.rpartition("/")[2], str(error) or "cannot be read"))
    return pl.concat(parts).sort("time_ns", maintain_order=True)
