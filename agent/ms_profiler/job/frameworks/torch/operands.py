"""Make the argument of an operator's span from an event of Kineto.

The argument is a number. Its lower bits connect the operator with the operator that computes its gradient. Its higher
bits are the id of a text with the shapes of the inputs.
"""

from typing import TYPE_CHECKING, Any

from ms_profiler.store.format import OP_TIE_BITS, STRING_MAX, Category

if TYPE_CHECKING:
    from ms_profiler.job.recorder import Recorder

#: the option that requests shapes
OPTION = "record_shapes"
#: kind of an event of Kineto -> category of its record
CATEGORIES = {"cpu_op": Category.OP, "user_annotation": Category.MARKER}
#: the id of the text of shapes must be smaller than this, to fit into the higher bits of an argument
_MOST = 1 << 64 - OP_TIE_BITS


def category(event: Any) -> Category | None:
    """Return the category of an event of Kineto; None if it is neither an operator nor a `record_function` region."""
    if hasattr(event, "activity_type"):
        return CATEGORIES.get(event.activity_type())
    # PyTorch 2.7 and older do not report the kind of an event. Of all events, only operators and regions of the user
    # have a thread number.
    if not event.start_thread_id():
        return None
    return Category.MARKER if event.is_user_annotation() else Category.OP


class Operands:
    """Make the arguments of the spans of operators; `store.format.Category` describes their format.

    Args:
        recorder: the recorder, which stores the texts of shapes.
        shapes: whether the events of Kineto have shapes.
    """

    def __init__(self, recorder: "Recorder", shapes: bool) -> None:
        self._recorder = recorder
        self._shapes = shapes

    def argument(self, event: Any) -> int:
        """Return the argument of the span of an operator.

        Args:
            event: the event of Kineto.
        """
        return _tie(event) | (self._shape_id(event.shapes()) << OP_TIE_BITS if self._shapes else 0)

    def _shape_id(self, shapes: list[list[int]]) -> int:
        """Store the shapes as a text and return its id; 0 if there is no input or the text is too long."""
        if not shapes:
            return 0
        text = text_of(shapes)
        number = self._recorder.intern(text) if len(text) <= STRING_MAX else 0
        return number if number < _MOST else 0


def text_of(shapes: list[list[int]]) -> str:
    """Return the shapes of an operator's inputs as a text, for example "4,8;8;;" for four inputs.

    Args:
        shapes: the dimensions of each input. The list of an input that is not a tensor, or has no dimension, is empty.
    """
    return "".join(",".join(map(str, dimensions)) + ";" for dimensions in shapes)


def _tie(event: Any) -> int:
    """Return a number that connects an operator with its gradient; 0 if autograd gave the operator no number.

    Autograd gives the operator and its gradient the same number.
    Result = 2 * (autograd's number + 1) + (1 for the gradient, else 0).
    """
    number = int(event.sequence_nr())
    if not 0 <= number < (1 << OP_TIE_BITS - 1) - 1:
        return 0
    return (number + 1) << 1 | int(event.fwd_thread_id() > 0)
