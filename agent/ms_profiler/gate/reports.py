"""Write a verdict in each form that other programs read; a file that cannot be written changes no verdict."""

import errno
import json
import os
from collections.abc import Callable, Iterable
from typing import Any, Final

from ms_profiler.gate import github, gitlab, junit
from ms_profiler.gate.errors import NotWrittenError


def as_json(document: dict[str, Any]) -> str:
    """Return a verdict as JSON.

    Args:
        document: the verdict, as `document.of` returns it.
    """
    return json.dumps(document, indent=1) + "\n"


#: name of a form, which is that of its option -> the function that returns its content
FORMS: Final[dict[str, Callable[[dict[str, Any]], str | bytes]]] = {
    "json": as_json,
    "junit": junit.report,
    "codequality": gitlab.code_quality,
    "metrics": gitlab.metrics,
}


def refuse_unwritable(paths: Iterable[str]) -> None:
    """Raise an error if a file cannot be written, before a job has run for minutes.

    Args:
        paths: the paths of the files.

    Raises:
        UsageError: a path is a directory, its folder is missing, or permission is.
    """
    for path in paths:
        folder = os.path.dirname(path) or "."
        if os.path.isdir(path):
            code = errno.EISDIR
        elif not os.path.isdir(folder):
            code = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
        elif not os.access(path if os.path.exists(path) else folder, os.W_OK):
            code = errno.EACCES
        else:
            continue
        raise NotWrittenError(path, OSError(code, os.strerror(code)))


def write(document: dict[str, Any], paths: dict[str, str], say: Callable[[str], None]) -> None:
    """Write a verdict to files, and to the summary of a step of GitHub Actions if there is one.

    A write may fail although the path was checked, for example because the disk is full. Then the other files are
    written all the same.

    Args:
        document: the verdict, as `document.of` returns it.
        paths: name of a form in `FORMS` -> path of its file.
        say: called with a line of text for each file that cannot be written.
    """
    for form, path in paths.items():
        content = FORMS[form](document)
        try:
            with open(path, "wb") as stream:
                stream.write(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            say(f"{path} cannot be written: {error.strerror}.")
    if (summary := os.environ.get(github.SUMMARY)) and not github.append_summary(document, summary):
        say(f"the summary {summary} is full, or cannot be written.")
