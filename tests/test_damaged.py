"""Damaged results of every kind give a result or one error, in seconds; `make test-robustness` tries more of them."""

import pytest
from damaged import small_files, sources, survives


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return the paths of small results by their kind."""
    return sources(tmp_path_factory.mktemp("results"))


@pytest.mark.parametrize(
    "kind", ["store", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("kineto", "ascend"))]
)
def test_a_damaged_result_is_read_or_refused(results, kind):
    wrong, ended = survives(results[kind], f"fast {kind}", 0, 16)
    assert wrong == []
    assert ended["result"] > 5


@pytest.mark.parametrize("kind", ["baseline", "history"])
def test_a_damaged_file_of_the_gate_is_read_or_refused(tmp_path, kind):
    wrong, ended = survives(small_files(tmp_path)[kind], f"fast {kind}", 0, 16, reader=kind)
    assert wrong == [] and ended["result"] >= 2
