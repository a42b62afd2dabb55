"""What every writer shares: opening, atomic finish and clean-up."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, Protocol

from ms_profiler.analysis.measures import Measures
from ms_profiler.errors import MsProfilerError, StoreError
from ms_profiler.store import layout

_REMEDY: Final = "Is there space left, and may you write there?"


class Writer(Protocol):
    """One artefact; modules are writers."""

    def path(self, measures: Measures) -> str:
        """Return where it goes, relative to the directory that receives what is derived."""

    def applies(self, measures: Measures) -> bool:
        """Tell whether there is anything to write; what was not collected gets no file."""

    def write(self, measures: Measures, stream: BinaryIO, *, pretty: bool) -> None:
        """Write all of it; the same measures give the same bytes."""


def write(writer: Writer, measures: Measures, *, pretty: bool = False) -> str | None:
    """Write one artefact, or remove an older one that no longer applies, and return its path if there is one.

    Args:
        writer: which.
        measures: of the run.
        pretty: format JSON for people.

    Raises:
        MsProfilerError: it cannot be written.
        StoreError: a symbolic link is in the way.
    """
    path = os.path.join(measures.target, writer.path(measures))
    folder = os.path.dirname(path)
    if os.path.islink(folder):
        raise StoreError(f"{folder} is a symbolic link; nothing is written through one.")
    try:
        if not writer.applies(measures):
            if os.path.lexists(path):
                os.unlink(path)
            return None
        os.makedirs(folder, layout.DIRECTORY_MODE, exist_ok=True)
        with replaced(path) as stream:
            writer.write(measures, stream, pretty=pretty)
    except OSError as error:
        raise MsProfilerError(f"Cannot write {path}: {error.strerror}.", _REMEDY) from error
    return path


@contextmanager
def replaced(path: str) -> Iterator[BinaryIO]:
    """Open a file beside `path` that takes its place when the block ends, and vanishes when the block raises."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    stream = os.fdopen(os.open(temporary, flags, layout.FILE_MODE), "wb", buffering=1 << 20)
    try:
        with stream:
            yield stream
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
