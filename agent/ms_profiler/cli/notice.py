"""The lines that commands print beside their answer."""

import sys

from ms_profiler.log import PREFIX, visible


def say(line: str) -> None:
    """Print a line to stderr that begins as the lines of a job do.

    Args:
        line: the line; control characters in it are shown as text.
    """
    print(visible(f"{PREFIX}{line}"), file=sys.stderr, flush=True)
