"""Most kernels without records make the work of a device unknown, except where launches were captured for graphs."""

import polars as pl
import pytest
from ms_profiler.analysis.readers import driver_calls


def lost(kernels, **calls):
    """Return the clause for a number of recorded kernels and the numbers of calls, by name."""
    sums = pl.DataFrame({"name": list(calls), "count": list(calls.values())}, {"name": pl.String, "count": pl.UInt32})
    return driver_calls.lost(sums, kernels)


@pytest.mark.parametrize(
    ("kernels", "calls", "said"),
    [
        (2, {"cudaLaunchKernel": 7_000, "cuLaunchKernel": 3_000}, "9,998 of 10,000 kernels that were launched"),
        (1_900, {"cudaLaunchKernel": 10_000}, "8,100 of 10,000 kernels that were launched"),
        (2_000, {"cudaLaunchKernel": 10_000}, ""),
        (0, {"cudaLaunchKernel": 9}, ""),
        (400, {"cudaLaunchKernel": 2_300, "cudaGraphLaunch": 100}, ""),
        (0, {"cudaLaunchKernel": 2_300, "cudaGraphLaunch": 100}, "2,300 of 2,300 kernels that were launched"),
        (0, {"cudaMemcpyAsync": 100}, ""),
        (0, {}, ""),
    ],
)
def test_most_launches_without_a_kernel_are_lost_kernels(kernels, calls, said):
    assert lost(kernels, **calls) == (f"{said} have no times" if said else "")
