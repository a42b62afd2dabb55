"""Distinguish ms-profiler's files in a directory from files of other tools, which are never replaced or removed.

If ms-profiler analyses a directory of another tool, the `summary.json` there lists the files that the analysis wrote,
each with a digest. A file that existed before the analysis, or has changed since, does not belong to ms-profiler.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.writers import core
from ms_profiler.store import layout


class Ledger:
    """The files that ms-profiler wrote into one directory.

    Args:
        directory: directory that receives derived files.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        known = read_summary(directory)
        derived = known.get("derived") if known else None
        written = derived.get("written") if isinstance(derived, dict) else None
        digests = written.items() if isinstance(written, dict) else ()
        #: paths, relative to the directory, of files that ms-profiler wrote and that have not changed since
        self.ours = frozenset(path for path, digest in digests if digest == _digest(directory, path))
        self._summary = known is not None

    def write(self, writer: core.Writer | core.Database, measures: Measures) -> None:
        """Write one file. If a file of another tool has the same name, keep that file. Note the result in the measures.

        Args:
            writer: the writer.
            measures: the measures of the run.
        """
        if self._free(writer, measures) and core.write(writer, measures) is not None:
            self._note(writer.path(measures), measures)

    def write_sections(self, writers: Sequence[core.SectionWriter], measures: Measures) -> None:
        """Write files section by section. If a file of another tool has the same name, keep that file.

        Args:
            writers: the writers.
            measures: the measures of the run.
        """
        free = [writer for writer in writers if self._free(writer, measures)]
        for path in core.write_sections(free, measures):
            self._note(os.path.relpath(path, self.directory), measures)

    def _free(self, artefact: core.Artefact, measures: Measures) -> bool:
        """Return whether a file may be written. If a file of another tool has the same name, note that file."""
        path = artefact.path(measures)
        there = os.path.lexists(os.path.join(self.directory, path))
        free = not there or path in self.ours or (path == layout.SUMMARY and self._summary)
        if not free:
            measures.existing.append(path)
        return free

    def _note(self, path: str, measures: Measures) -> None:
        measures.written[path] = _digest(self.directory, path)


def read_summary(directory: str) -> dict[str, Any] | None:
    """Return the content of the `summary.json` that ms-profiler wrote into a directory; None without such a file."""
    try:
        with open(os.path.join(directory, layout.SUMMARY), encoding="utf-8") as stream:
            content = json.load(stream)
    except (OSError, ValueError, RecursionError):
        return None
    product = content.get("product") if isinstance(content, dict) else None
    return content if isinstance(product, dict) and product.get("name") == "ms-profiler" else None


def _digest(directory: str, path: str) -> str:
    try:
        with open(os.path.join(directory, path), "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError:
        return ""
