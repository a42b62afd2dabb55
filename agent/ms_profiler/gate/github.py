"""Write a verdict for GitHub: a summary on the page of the job, and annotations of the check."""

import os
from collections.abc import Iterator
from typing import Any

from ms_profiler.gate import text

SUMMARY = "GITHUB_STEP_SUMMARY"
ACTIONS = "GITHUB_ACTIONS"
#: largest size of our part of a step's summary, in bytes: GitHub refuses more than 1 MiB, and the step may write more
CAP = 256 * 1024
#: number of annotations of each kind that GitHub shows for a step
MOST = 10
_CUT = "\n\nThe rest is left out: the summary of a step has a limit.\n"


def append_summary(document: dict[str, Any], path: str) -> bool:
    """Append a verdict to the summary of the step; return whether there was room and the file could be written.

    Args:
        document: the result of `document.of`.
        path: the path that the variable `SUMMARY` names.
    """
    content = text.markdown(document)
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
        document: the result of `document.of`.
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
            yield f"::{kind} title=ms-profiler gate::{_escaped(said)}"


def _escaped(text_of: str) -> str:
    return text_of.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
