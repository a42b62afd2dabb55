"""The advice about a wait for data says how long the workers take for a batch."""

import re

import pytest
from conftest import PROGRAMS


@pytest.mark.slow
def test_the_time_of_the_workers_is_told(job):
    run = job(PROGRAMS / "slow_batches.py", "transform", "1")
    assert run.code == 0, run.err
    told = next(item["evidence"] for item in run.summary["advice"] if item["cause"] == "input-bound")
    # eight samples of 5 ms
    assert float(re.search(r"the worker made a batch in ([0-9.]+) ms", told)[1]) >= 40
