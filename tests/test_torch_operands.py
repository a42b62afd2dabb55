"""What Kineto reports about operators is stored in the store's format, for every version of PyTorch."""

from types import SimpleNamespace

import pytest
from ms_profiler.job.frameworks.torch import operands
from ms_profiler.job.frameworks.torch.operands import Operands, text_of
from ms_profiler.store.format import OP_TIE_BITS, STRING_MAX, Category


class Texts:
    """A recorder that gives an id to each text."""

    def __init__(self, first=1):
        self.ids, self.first = {}, first

    def intern(self, text):
        return self.ids.setdefault(text, self.first + len(self.ids))


def event(**values):
    return SimpleNamespace(**{name: lambda value=value: value for name, value in values.items()})


@pytest.mark.parametrize(
    ("values", "category"),
    [
        ({"activity_type": "cpu_op"}, Category.OP),
        ({"activity_type": "user_annotation"}, Category.MARKER),
        ({"activity_type": "cuda_runtime"}, None),
        # older versions of PyTorch have no activity_type
        ({"start_thread_id": 1, "is_user_annotation": False}, Category.OP),
        ({"start_thread_id": 1, "is_user_annotation": True}, Category.MARKER),
        ({"start_thread_id": 0, "is_user_annotation": False}, None),
    ],
)
def test_events_of_kineto_are_classified_in_every_version(values, category):
    assert operands.category(event(**values)) == category


@pytest.mark.parametrize(
    ("shapes", "text"),
    [([], ""), ([[]], ";"), ([[4, 8], [8], []], "4,8;8;;"), ([[0], [1, 2, 3]], "0;1,2,3;")],
)
def test_texts_separate_every_input(shapes, text):
    assert text_of(shapes) == text


@pytest.mark.parametrize(
    ("number", "forward_thread", "tie"), [(-1, 0, 0), (0, 0, 2), (0, 3, 3), (7, 1, 17), (1 << 39, 0, 0)]
)
def test_the_tie_lies_below_the_shapes(number, forward_thread, tie):
    values = event(sequence_nr=number, fwd_thread_id=forward_thread, shapes=[[2], []])
    texts = Texts(5)
    assert Operands(texts, True).argument(values) == tie | 5 << OP_TIE_BITS
    assert texts.ids == {"2;;": 5}
    assert Operands(texts, False).argument(values) == tie


def test_shapes_beyond_the_limit_are_unknown():
    long = event(sequence_nr=0, fwd_thread_id=0, shapes=[[1]] * STRING_MAX)
    assert Operands(Texts(), True).argument(long) == 2
    assert (
        Operands(Texts(1 << 64 - OP_TIE_BITS), True).argument(event(sequence_nr=0, fwd_thread_id=0, shapes=[[1]])) == 2
    )
