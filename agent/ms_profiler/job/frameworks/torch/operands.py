"""The arguments of operators that Kineto reports, in the form of the store."""

from typing import TYPE_CHECKING, Any

from ms_profiler.store.format import OP_TIE_BITS, STRING_MAX, Category

if TYPE_CHECKING:
    from ms_profiler.job.recorder import Recorder

#: the option that requests shapes
OPTION = "record_shapes"
KEPT = {"cpu_op": Category.OP, "user_annotation": Category.MARKER}
#: largest number of string ids for which an argument has room beside the tie
_MOST = 1 << 64 - OP_TIE_BITS


def category(event: Any) -> Category | None:
    """Return the kind of an event of Kineto; None where it is neither an operator nor a region of the user."""
    if hasattr(event, "activity_type"):
        return KEPT.get(event.activity_type())
    # PyTorch 2.7 and older do not report the kind; other events have no thread number
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
        """Return the id of the text; 0 without any input, or where the text is too long for a string of the store."""
        if not shapes:
            return 0
        text = text_of(shapes)
        number = self._recorder.intern(text) if len(text) <= STRING_MAX else 0
        return number if number < _MOST else 0


def text_of(shapes: list[list[int]]) -> str:
    """Return shapes as the store holds them: "4,8;8;;".

    Args:
        shapes: the dimensions of each input; none for an input that is no tensor, or has no dimension.
    """
    return "".join(",".join(map(str, dimensions)) + ";" for dimensions in shapes)


def _tie(event: Any) -> int:
    """Return the number that an operator shares with its gradient, and which of the two it is; 0 without one."""
    number = int(event.sequence_nr())
    if not 0 <= number < (1 << OP_TIE_BITS - 1) - 1:
        return 0
    return (number + 1) << 1 | int(event.fwd_thread_id() > 0)
