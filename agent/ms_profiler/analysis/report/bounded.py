"""Names of the parts of a step for people."""

from typing import Final

#: parts of a step, in order of precedence, with their names
PARTS: Final[dict[str, str | None]] = {
    **dict.fromkeys(("computing", "communication", "copy", "kernel gap", "garbage collection")),
    **dict.fromkeys(("data", "compile", "checkpoint", "sync")),
    "launch": "launching operators",
    "host": "other code of the host",
    "blocked": "asleep or blocked",
    "runnable": "waiting for a processor",
    "unknown": "host, unknown",
}
