"""One HTML file of data, styles and scripts; it asks the network for nothing, and its policy forbids that it could.

The policy (https://www.w3.org/TR/CSP3/) allows what the file itself holds and no address outside. Data are JSON,
deflated; nothing of a run becomes markup: scripts set text alone.
"""

import html
import json
from importlib import resources
from typing import Any, BinaryIO, Final

from ms_profiler.analysis.page import packing

#: in the order in which they are read
_SCRIPTS: Final = (
    "vendor/uPlot.iife.min.js",
    "words.js",
    "elements.js",
    "data.js",
    "charts.js",
    "tables.js",
    "modules.js",
    "timeline.js",
    "page.js",
)
_STYLES: Final = ("vendor/uPlot.min.css", "page.css")
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def write(runs: list[dict[str, Any]], stream: BinaryIO, differences: dict[str, Any] | None = None) -> None:
    """Write the page.

    Args:
        runs: of `content.content`, one, or two to compare.
        stream: where it goes.
        differences: of two runs, as `ms-profiler compare --format json` prints them.
    """
    title = html.escape(" / ".join(run["summary"]["directory"] for run in runs))
    # a surrogate that stands alone, as a name that is no UTF-8 has, cannot be written
    held = {"runs": runs, "differences": differences}
    data = json.dumps(held, separators=(",", ":"), allow_nan=False, default=str).encode("utf-8", "replace")
    head = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>ms-profiler: {title}</title>
<style>
"""
    stream.write(head.encode("utf-8", "replace"))
    for name in _STYLES:
        stream.write(_static(name))
    stream.write(b'</style>\n</head>\n<body>\n<div id="app" aria-busy="true">Reading the run ...</div>\n')
    stream.write(b"<noscript>This page draws its figures with a script of its own.</noscript>\n")
    stream.write(b'<script id="run" type="text/plain">')
    stream.write(packing.deflated(data, 6).encode())
    stream.write(b"</script>\n<script>\n")
    for name in _SCRIPTS:
        stream.write(_static(name))
    stream.write(b"</script>\n</body>\n</html>\n")


def _static(name: str) -> bytes:
    return (resources.files(__package__) / "static" / name).read_bytes() + b"\n"
