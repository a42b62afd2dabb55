"""The one way we speak inside a job: single lines on stderr, never on stdout, never raising."""

import os
import sys

PREFIX = "ms-profiler: "


def line(message: str) -> None:
    """Write one line to stderr; newlines inside `message` become spaces.

    Written with one `write` on the descriptor so that the lines of several ranks do not mix. A closed or
    broken stderr is the job's affair: nothing is raised.
    """
    text = PREFIX + " ".join(message.split("\n")) + "\n"
    try:
        stream = sys.stderr
        stream.flush()
        os.write(stream.fileno(), text.encode("utf-8", "backslashreplace"))
    except Exception:  # noqa: BLE001 - any object may stand in for stderr
        try:
            sys.stderr.write(text)
        except Exception:  # noqa: BLE001
            pass
