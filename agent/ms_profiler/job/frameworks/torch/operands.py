"""Make the argument of an operator's span from Kineto's event: the tie to its gradient, and the shapes of inputs."""

from typing import TYPE_CHECKING, Any

from ms_profiler.store.format import OP_TIE_BITS, STRING_MAX, Category

if TYPE_CHECKING:
    from ms_profiler.job.recorder import Recorder

#: the option that requests shapes
OPTION = "record_shapes"
#: kind of an event of Kineto -> category of its record
CATEGORIES = {"cpu_op": Category.OP, "user_annotation": Category.MARKER}
#: the id of a text must be smaller than this, to fit into an argument together with the tie
_MOST = 1 << 64 - OP_TIE_BITS


def category(event: Any) -> Category | None:
    """Return the category of an event of Kineto; None if it is neither an operator nor a region of the user."""
    if hasattr(event, "activity_type"):
        return CATEGORIES.get(event.activity_type())
    # PyTorch 2.7 and older do not report the kind; only operators and regions of the user have a thread number
    if not event.start_thread_id():
        return None
    return Category.MARKER if event.is_user_annotation() else Category.OP


class Operands:
    """Make the arguments of spans, see `store.format.Category`.

    Args:
        recorder: the recorder that stores the texts.
        shapes: whether the events have shapes.
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
        """Return the id of the shapes as text; 0 if there is no input, or the text is too long for the store."""
        if not shapes:
            return 0
        text = text_of(shapes)
        number = self._recorder.intern(text) if len(text) <= STRING_MAX else 0
        return number if number < _MOST else 0


def text_of(shapes: list[list[int]]) -> str:
    """Return shapes in the text form of the store, for example "4,8;8;;" for four inputs.

    Args:
        shapes: the dimensions of each input; empty for an input that is not a tensor, or has no dimension.
    """
    return "".join(",".join(map(str, dimensions)) + ";" for dimensions in shapes)


def _tie(event: Any) -> int:
    """Return the tie of an operator to its gradient; 0 if autograd gave it no number.

    The operator and its gradient have the same number. tie = 2 * (number + 1) + (1 for the gradient, else 0).
    """
    number = int(event.sequence_nr())
    if not 0 <= number < (1 << OP_TIE_BITS - 1) - 1:
        return 0
    return (number + 1) << 1 | int(event.fwd_thread_id() > 0)
