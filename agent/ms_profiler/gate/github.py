"""Write a verdict for GitHub: a summary on the page of the CI job, and annotations of the check."""

import os
from collections.abc import Iterator
from typing import Any

from ms_profiler.gate import text
from ms_profiler.log import visible

SUMMARY = "GITHUB_STEP_SUMMARY"
ACTIONS = "GITHUB_ACTIONS"
#: Largest size of our part of a step's summary, in bytes. GitHub refuses a summary of more than 1 MiB, and other
#: commands of the same step may write into it, too.
CAP = 256 * 1024
#: largest number of annotations of each kind, because GitHub shows no more for a step
MOST = 10
_CUT = "\n\nThe rest is left out: the summary of a step has a limit.\n"


def append_summary(document: dict[str, Any], path: str) -> bool:
    """Append a verdict to GitHub's summary of the step; return False if there is no room or the write fails.

    Args:
        document: the verdict, as `document.of` returns it.
        path: the file of the summary, which GitHub names in an environment variable.
    """
    content = visible(text.markdown(document))
    if len(content.encode()) > CAP:
        content = content.encode()[: CAP - len(_CUT)].decode(errors="ignore") + _CUT
    try:
        if os.path.exists(path) and os.path.getsize(path) + len(content.encode()) > 2 * CAP:
            return False
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(content)
    except OSError:
        return False
    return True


def annotations(document: dict[str, Any]) -> Iterator[str]:
    """Yield lines of output that GitHub turns into annotations, at most `MOST` of each kind.

    Args:
        document: the verdict, as `document.of` returns it.
    """
    errors, warnings = [], []
    for one in document["metrics"]:
        unit = f" {one['unit']}" if one["unit"] else ""
        said = f"{one['name']}: {one['base']:,.6g} before, {one['new']:,.6g}{unit} now. {one['why']}"
        if one["verdict"] == "regression":
            errors.append(said)
        elif one["verdict"] == "inconclusive":
            warnings.append(said)
    errors += document["reasons"]
    for kind, said_of in (("error", errors), ("warning", warnings)):
        for said in said_of[:MOST]:
            yield f"::{kind} title=ms-profiler gate::{_escaped(visible(said))}"


def _escaped(text_of: str) -> str:
    return text_of.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
