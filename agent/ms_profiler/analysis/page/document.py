"""Build one HTML file from data, styles and scripts. The page uses no network, and forbids the browser any access.

The content security policy (https://www.w3.org/TR/CSP3/) allows only the content of the file, and no address. The data
are deflated JSON. The scripts insert texts of a run only as text nodes, so that no text becomes markup.
"""

import html
import io
import json
from importlib import resources
from typing import Any, BinaryIO, Final

from ms_profiler.analysis.page import packing
from ms_profiler.analysis.report.palette import COLOURS

#: the scripts, in the order in which the browser reads them
_SCRIPTS: Final = (
    "vendor/uPlot.iife.min.js",
    "words.js",
    "elements.js",
    "data.js",
    "charts.js",
    "tables.js",
    "modules.js",
    "flames.js",
    "strips.js",
    "timeline.js",
    "perfetto.js",
    "overview.js",
    "ranks.js",
    "usage.js",
    "compare.js",
    "page.js",
)
_INDEX_SCRIPTS: Final = ("words.js", "elements.js", "data.js", "index.js")
_STYLES: Final = ("vendor/uPlot.min.css", "page.css")
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
#: policy of a served page: it may fetch the timeline from its own server, and nothing from another address
_SERVED: Final = f"{_POLICY}; connect-src 'self'"


def write(
    runs: list[dict[str, Any]],
    stream: BinaryIO,
    differences: dict[str, Any] | None = None,
    ranks: dict[str, Any] | None = None,
) -> None:
    """Write the page.

    Args:
        runs: the contents, from `content.content`, of one run, of two runs to compare, or of the ranks of a job.
        stream: the stream that receives the page.
        differences: the differences of two runs, as `ms-profiler compare --format json` prints them.
        ranks: the comparison of the ranks of a job, from `side_by_side.content`.
    """
    title = " / ".join(run["summary"]["directory"] for run in runs[:2])
    _write({"runs": runs, "differences": differences, "ranks": ranks}, title, _SCRIPTS, stream)


def index(rows: list[dict[str, Any]]) -> bytes:
    """Return the page that lists several results, with links to their pages.

    Args:
        rows: one row for each page.
    """
    stream = io.BytesIO()
    _write({"index": rows}, "results", _INDEX_SCRIPTS, stream)
    return stream.getvalue()


def served(page: bytes) -> bytes:
    """Return a page whose policy lets it fetch the timeline from the server that it comes from.

    Args:
        page: the bytes of a page that `write` made.
    """
    return page.replace(_POLICY.encode(), _SERVED.encode(), 1)


def _write(held: dict[str, Any], title: str, scripts: tuple[str, ...], stream: BinaryIO) -> None:
    # a name that is not valid UTF-8 contains lone surrogates, which cannot be encoded
    held, columns = _apart(held)
    data = json.dumps(held, separators=(",", ":"), allow_nan=False, default=str).encode("utf-8", "replace")
    head = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>ms-profiler: {html.escape(title)}</title>
<style>
"""
    stream.write(head.encode("utf-8", "replace"))
    for name in _STYLES:
        stream.write(_static(name))
    stream.write(b'</style>\n</head>\n<body>\n<div id="app" aria-busy="true">Reading the run ...</div>\n')
    stream.write(b"<noscript>This page draws its figures with a script of its own.</noscript>\n")
    stream.write(b'<script id="run" type="text/plain">')
    stream.write(packing.deflated(data, 6).encode())
    for name, column in columns.items():
        stream.write(f'</script>\n<script id="{name}" type="text/plain">{column}'.encode())
    stream.write(b"</script>\n<script>\n")
    stream.write(f"const COLOURS = {json.dumps(COLOURS)};\n".encode())
    for name in scripts:
        stream.write(_static(name))
    stream.write(b"</script>\n</body>\n</html>\n")


def _apart(held: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Separate the columns of the timelines, which are deflated already, from the rest of a page.

    Return the rest, and the columns by name."""
    columns, runs = {}, []
    for number, run in enumerate(held.get("runs", [])):
        packed = run["timeline"]["packed"]
        columns.update({f"column-{number}-{name}": column["data"] for name, column in packed.items()})
        without = {name: {**column, "data": f"column-{number}-{name}"} for name, column in packed.items()}
        runs.append({**run, "timeline": {**run["timeline"], "packed": without}})
    return ({**held, "runs": runs} if runs else held), columns


def _static(name: str) -> bytes:
    return (resources.files(__package__) / "static" / name).read_bytes() + b"\n"
