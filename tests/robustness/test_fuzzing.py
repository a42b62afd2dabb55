"""Each reader answers damaged input with a result or one error, and does not crash, hang or use too much memory.

The mutations know the structure of their input: records, values of JSON, cells, rows, packed content. A seed and a
number reproduce each of them. `MS_PROFILER_SEED` sets the seed. With `KEEP=DIR`, the test copies the inputs that fail
to that directory. The readers share `MS_PROFILER_EXECUTIONS` inputs; `make fuzz` tries more inputs than `make
test-robustness`.
"""

import os

import pytest
from damaged import parses, small_files, sources, survives
from recorded import recorded

SEED = os.environ.get("MS_PROFILER_SEED", "20")
EXECUTIONS = int(os.environ.get("MS_PROFILER_EXECUTIONS", "1000"))
#: name of the inputs -> the reader in `damaged_results.py`, and the share of these inputs in all executions
READERS = {
    "store": ("result", 0.05),
    "recorded": ("result", 0.2),
    "kineto": ("result", 0.15),
    "text": ("result", 0.1),
    "database": ("result", 0.1),
    "ranks": ("cluster", 0.05),
    "summary": ("summary", 0.05),
    "baseline": ("baseline", 0.1),
    "history": ("history", 0.05),
    "options": ("options", 0.1),
    "dynamic": ("dynamic", 0.05),
}
PARSED = int(os.environ.get("MS_PROFILER_PARSED", "1000"))
#: parser in `damaged_parts.py` -> the names of its inputs, and a pattern of the files to damage
PARSERS = {
    "records": (("store",), "**/*.seg"),
    "trace": (("kineto", "text"), "**/*trace*.json"),
    "packed": (("kineto",), "**/*.json.gz"),
    "cells": (("text",), "**/*.csv"),
    "rows": (("database",), "**/*.db"),
    "options": (("options",), "**/*.json"),
    "dynamic": (("dynamic",), "**/*.json"),
}
#: number of inputs that one process parses
PARSED_PART = 20_000
#: number of inputs that one process reads; its time limit is the limit of one input times this number
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
    """Return the undamaged inputs by their names in `READERS`."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "results").mkdir()
    (folder / "small").mkdir()
    (folder / "recorded").mkdir()
    found = sources(folder / "results") | {"recorded": recorded(folder / "recorded")}
    ascend = found.pop("ascend")
    split = {name: [path for path in ascend if path.parent.name == name] for name in ("text", "database")}
    return found | split | small_files(folder / "small")


@pytest.mark.parametrize(("kind", "first", "count"), PARTS, ids=[f"{kind}-{first}" for kind, first, _ in PARTS])
def test_damaged_input_is_read_or_refused(inputs, kind, first, count):
    wrong, ended = survives(inputs[kind], f"{SEED} {kind}", first, count, reader=READERS[kind][0])
    assert wrong == []
    assert sum(ended.values()) == count


@pytest.mark.parametrize("first", range(0, PARSED, PARSED_PART))
@pytest.mark.parametrize("parser", PARSERS)
def test_a_parser_takes_or_refuses_damaged_content(inputs, parser, first, tmp_path):
    kinds, pattern = PARSERS[parser]
    count = min(PARSED_PART, PARSED - first)
    paths = [path for kind in kinds for path in inputs[kind]]
    wrong, ended = parses(paths, pattern, tmp_path, parser, SEED, first, count)
    assert wrong == []
    assert sum(ended.values()) == count
