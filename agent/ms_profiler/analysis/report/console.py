"""A terminal that shows signs of control and does not obey them, whoever wrote them into a name."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ms_profiler.log import visible


class Terminal(Console):
    """Rich's console, except that signs of control in a text are shown: Rich passes them on."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of an object, with visible signs of control."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))
