"""Each reader answers damaged input with a result or one error of ours: no crash, no hang, no more memory than allowed.

The mutations know the structure of what they damage: records, values of JSON, cells, rows, packed content. A seed and
a number make each of them again: `MS_PROFILER_SEED`, and `KEEP=DIR` keeps the inputs that fail.
MS_PROFILER_EXECUTIONS inputs are divided among the readers; `make fuzz` tries more of them than `make test-robustness`.
"""

import os

import pytest
from damaged import small_files, sources, survives

SEED = os.environ.get("MS_PROFILER_SEED", "20")
EXECUTIONS = int(os.environ.get("MS_PROFILER_EXECUTIONS", "1000"))
#: reader -> kind of its input, and its share of the executions
READERS = {
    "store": ("result", 0.15),
    "kineto": ("result", 0.15),
    "text": ("result", 0.15),
    "database": ("result", 0.15),
    "ranks": ("cluster", 0.05),
    "summary": ("summary", 0.05),
    "baseline": ("baseline", 0.1),
    "history": ("history", 0.05),
    "options": ("options", 0.1),
    "dynamic": ("dynamic", 0.05),
}
#: inputs of a process: a process that hangs is ended after that many times the seconds that one input may take
PART = 50
PARTS = [
    (kind, first, min(PART, total - first))
    for kind, (_, share) in READERS.items()
    for total in [round(EXECUTIONS * share)]
    for first in range(0, total, PART)
]


def test_each_execution_is_one_of_a_reader():
    assert sum(share for _, share in READERS.values()) == pytest.approx(1)
    assert sum(count for *_, count in PARTS) == pytest.approx(EXECUTIONS, abs=len(READERS))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Return the undamaged inputs of each reader."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "results").mkdir()
    (folder / "small").mkdir()
    found = sources(folder / "results")
    ascend = found.pop("ascend")
    split = {name: [path for path in ascend if path.parent.name == name] for name in ("text", "database")}
    return found | split | small_files(folder / "small")


@pytest.mark.parametrize(("kind", "first", "count"), PARTS, ids=[f"{kind}-{first}" for kind, first, _ in PARTS])
def test_damaged_input_is_read_or_refused(inputs, kind, first, count):
    wrong, ended = survives(inputs[kind], f"{SEED} {kind}", first, count, reader=READERS[kind][0])
    assert wrong == []
    assert sum(ended.values()) == count
