"""MFU and tokens per second follow from the numbers that the user gives."""

import pytest
from ms_profiler.analysis.metrics.utilization import Utilization, Workload, reached
from ms_profiler.errors import UsageError


def test_rates_of_a_job():
    # 2 TFLOP in 20 ms are 100 TFLOP/s, a quarter of the peak of 400
    found = reached(Workload(2e12, 4e14, 4096), 20.0)
    assert (found.flops_per_second, found.mfu, found.tokens_per_second) == pytest.approx((1e14, 0.25, 204_800))


def test_missing_figures_stay_missing():
    assert reached(Workload(flops_per_step=2e12), 20.0) == Utilization(1e14, None, None)
    assert reached(Workload(peak_flops=1e12), 20.0) == Utilization(None, None, None)
    assert reached(Workload(1e12, 1e12, 1), None) == Utilization(None, None, None)
    assert not Workload().given and Workload(tokens_per_step=1).given


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf")])
def test_an_impossible_value_is_an_error(value):
    with pytest.raises(UsageError, match=r"--peak-flops is .* positive number"):
        Workload(peak_flops=value)
