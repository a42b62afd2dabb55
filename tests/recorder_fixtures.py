"""Fixtures of the tests of the recorders."""

import pytest
from recorders import KINDS, make


@pytest.fixture(params=KINDS)
def recorder(request):
    """A recorder that is closed afterwards, whatever happens."""
    recorder = make(request.param)
    yield recorder
    recorder.close()


@pytest.fixture
def folder(tmp_path):
    """Where the segments go."""
    path = tmp_path / "store"
    path.mkdir()
    return path
