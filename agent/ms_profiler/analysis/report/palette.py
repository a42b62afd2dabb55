"""The colour of each part, phase and category. The terminal and the page (report.html) use the same colours.

The colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), and darker and lighter shades of them. People
with any colour blindness can distinguish the colours of Okabe and Ito.
"""

from typing import Final

COLOURS: Final = {
    "computing": "#0072b2",
    "forward": "#0072b2",
    "module": "#0072b2",
    "kernel": "#0072b2",
    "graph": "#0072b2",
    "steps": "#0072b2",
    "overlapped": "#003f66",
    "op": "#56b4e9",
    "launch": "#56b4e9",
    "backward": "#009e73",
    "recompute": "#66c2a5",
    "optimizer": "#8a63b8",
    "communication": "#cc79a7",
    "import": "#b07aa1",
    "data": "#e69f00",
    "data wait": "#e69f00",
    "set-up": "#e69f00",
    "sync": "#d55e00",
    "copy": "#17a2b8",
    "compile": "#b8a400",
    "checkpoint": "#8b5e3c",
    "garbage collection": "#a83232",
    "blocked": "#6b7280",
    "runnable": "#374151",
    "host": "#9ca3af",
    "kernel gap": "#d1d5db",
    "idle": "#d1d5db",
    "unknown": "#c4b5a0",
    "other": "#c7ccd4",
    "not recorded": "#e5e7eb",
}
