"""A console that makes control characters in names visible, so that the terminal does not execute them."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ms_profiler.log import visible


class Terminal(Console):
    """Rich's console with visible control characters. Rich itself would pass control characters to the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of text that an object consists of, with visible control characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))
