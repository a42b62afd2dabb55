"""The titles that reports use for the parts of a step, such as "computing" and "launching operators"."""

from typing import Final

#: part of a step -> its title, in the order of the tables; None if the part's name is its title
PARTS: Final[dict[str, str | None]] = {
    **dict.fromkeys(("computing", "communication", "copy", "kernel gap", "garbage collection")),
    **dict.fromkeys(("data", "compile", "checkpoint", "sync")),
    "launch": "launching operators",
    "host": "other code of the host",
    "blocked": "asleep or blocked",
    "runnable": "waiting for a processor",
    "unknown": "host, unknown",
}
