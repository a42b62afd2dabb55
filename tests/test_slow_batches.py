"""The advice about a wait for data names the function that makes the batches late, where workers make them, too."""

import re

import pytest
from conftest import PROGRAMS
from test_cli import run as sql


def _advice(run):
    assert run.code == 0, run.err
    return next(item for item in run.summary["advice"] if item["cause"] == "input-bound")


def _evidence(run):
    return _advice(run)["evidence"]


@pytest.mark.slow
def test_the_time_of_the_workers_is_named(job):
    advice = _advice(job(PROGRAMS / "slow_batches.py", "transform", "1"))
    found = advice["evidence"]
    assert advice["action"].endswith('The option "with_stack": "sample" tells which function takes the time.')
    # a batch has eight samples, and each takes 5 ms
    assert float(re.search(r"the worker made a batch in ([0-9.]+) ms", found)[1]) >= 40
    assert " % of it in " not in found


@pytest.mark.slow
@pytest.mark.parametrize(("where", "slow"), [("transform", "blur"), ("collate", "stack_up")])
@pytest.mark.parametrize("option", [{"data_process": True}, {"with_stack": "sample"}, {"with_stack": True}])
def test_the_slow_function_of_forked_workers_is_named(job, where, slow, option):
    run = job(PROGRAMS / "slow_batches.py", where, "2", options=option)
    words = _evidence(run)
    found = re.search(r"([0-9]+) % of it in busy at \S*slow_batches.py:\d+, called from (\w+) at", words)
    assert found, words
    assert int(found[1]) >= 70
    assert found[2] == slow
    # the collation has its own span inside the fetch's span
    done = sql("sql", run.result, "select name, count(*), sum(dur) from spans where name like '% batch' group by name")
    spans = dict(re.findall(r"^ *(\w+ batch) +(\d+ +\d+)$", done.stdout, re.M))
    (fetches, fetching), (collations, collating) = (
        map(int, spans[f"{one} batch"].split()) for one in ("fetch", "collate")
    )
    assert fetches == collations == 30
    assert (collating > fetching / 2) is (where == "collate")
