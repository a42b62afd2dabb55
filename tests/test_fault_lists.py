"""The lists of what may fail, from which the tests of faults take each in turn, are complete."""

from conftest import ROOT
from fault_lists import ELSEWHERE, FILES, REFUSALS, entries, writing


def test_the_lists_are_complete():
    assert set(REFUSALS) <= entries() and set(ELSEWHERE) <= entries()
    assert set(FILES) == writing()
    named = [*ELSEWHERE.values(), *(file for file in FILES.values() if isinstance(file, str))]
    assert all((ROOT / "tests" / name).exists() for name in named)
