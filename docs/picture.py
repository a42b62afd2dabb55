"""Draw the output of `ms-profiler summary DIR` as a picture for docs/; `make picture` runs this after the demo."""

import io
import json
import re
import sys
from pathlib import Path

from ms_profiler.analysis.report import screen
from rich.console import Console
from rich.text import Text

WIDTH = 80
TITLE = "ms-profiler summary ./data"


def main(directory: str, image: str) -> None:
    """Write the picture.

    Args:
        directory: path of a result directory, which contains `summary.json`.
        image: path of the SVG file to write.
    """
    summary = json.loads((Path(directory) / "summary.json").read_text())
    printed = io.StringIO()
    shown = f"./data/{Path(directory).name}"
    screen.show(
        summary,
        shown,
        Console(file=printed, force_terminal=True, width=WIDTH, color_system="truecolor", highlight=False),
    )
    recorded = Console(file=io.StringIO(), record=True, width=WIDTH)
    recorded.print(Text.from_ansi(printed.getvalue()))
    drawn = recorded.export_svg(title=TITLE)
    # remove the fonts that a browser would download: the picture then uses the fonts of the reader's machine
    Path(image).write_text(re.sub(r"@font-face \{.*?\}\n", "", drawn, flags=re.DOTALL))


if __name__ == "__main__":
    main(*sys.argv[1:])
