"""Kineto prints nothing while ms-profiler uses it, and its log level is restored afterwards."""

import ctypes

import pytest
from ms_profiler.job.frameworks.torch import silence


@pytest.fixture
def level(monkeypatch):
    variable = ctypes.c_int(4)
    monkeypatch.setattr(silence, "_level", lambda: variable)
    return variable


def test_the_level_is_put_back(level):
    assert silence.silently(lambda: level.value) > 6  # the severest level that there is
    assert level.value == 4


def test_an_error_puts_it_back_too(level):
    with pytest.raises(ZeroDivisionError):
        silence.silently(lambda: 1 // 0)
    assert level.value == 4


def test_a_call_that_was_cut_off_leaves_nothing_behind(level):
    """An exception of a signal handler may end the call before it restores the level."""
    silence.silently(lambda: None)
    level.value = silence._NOTHING
    silence.silently(lambda: None)
    assert level.value == 4


def test_a_level_that_kineto_sets_itself_stays(level):
    def first_use():
        level.value = 3

    silence.silently(first_use)
    assert level.value == 3


def test_without_the_variable_it_prints(monkeypatch):
    monkeypatch.setattr(silence, "_level", lambda: None)
    assert silence.silently(lambda: "called") == "called"
