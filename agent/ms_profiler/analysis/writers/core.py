"""What every writer shares: opening, atomic finish and clean-up."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, Final, Protocol, runtime_checkable

from ms_profiler.analysis.ahead import ahead
from ms_profiler.analysis.measures import Measures
from ms_profiler.analysis.progress import Progress, Stage
from ms_profiler.analysis.sections import Section
from ms_profiler.errors import MsProfilerError, StoreError
from ms_profiler.store import layout

_REMEDY: Final = "Is there space left, and may you write there?"
#: nobody reads a database before it is finished, and one that is not gets no name: no journal is needed
_PRAGMAS: Final = ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "temp_store = MEMORY")


class Artefact(Protocol):
    """Something that an analysis leaves; modules are artefacts."""

    def path(self, measures: Measures) -> str:
        """Return where it goes, relative to the directory that receives what is derived."""

    def applies(self, measures: Measures) -> bool:
        """Tell whether there is anything to write; what was not collected gets no file."""


class Writer(Artefact, Protocol):
    """One file, written in one go."""

    def write(self, measures: Measures, stream: BinaryIO, *, pretty: bool) -> None:
        """Write all of it; the same measures give the same bytes."""


class SectionWriter(Artefact, Protocol):
    """A file that is written section by section, or a file for each section."""

    def part(self, measures: Measures, number: int) -> str:
        """Return where a section goes; the first one goes to `path`."""

    def write(self, measures: Measures, section: Section, stream: BinaryIO, *, pretty: bool) -> None:
        """Write a section; the same measures give the same bytes."""


@runtime_checkable
class Database(Artefact, Protocol):
    """One SQLite database."""

    def fill(self, measures: Measures, connection: sqlite3.Connection) -> None:
        """Make all tables, inside one transaction; the same measures give the same bytes."""


def write(writer: Writer | Database, measures: Measures, *, pretty: bool = False) -> str | None:
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
    with _telling(path):
        if not _ready(writer, measures, path):
            return None
        if isinstance(writer, Database):
            with database(path) as connection:
                writer.fill(measures, connection)
        else:
            with replaced(path) as stream:
                writer.write(measures, stream, pretty=pretty)
    return path


def write_sections(
    writers: Sequence[SectionWriter], measures: Measures, *, pretty: bool = False, progress: Progress | None = None
) -> list[str]:
    """Write artefacts section by section, and return the paths of their files.

    Each section is read once, for all of them; their files take their places together. Those that an earlier analysis
    left for sections that there are no more are removed.

    Args:
        writers: which.
        measures: of the run.
        pretty: format JSON for people.
        progress: told after each section.

    Raises:
        MsProfilerError: one cannot be written.
        StoreError: a symbolic link is in the way.
    """
    wanted = []
    for writer in writers:
        path = os.path.join(measures.target, writer.path(measures))
        with _telling(path):
            if _ready(writer, measures, path):
                wanted.append(writer)
    streams: dict[str, BinaryIO] = {}
    with ExitStack() as files, ThreadPoolExecutor(max(len(wanted), 1), "ms-profiler-writer") as threads:

        def add(writer: SectionWriter, section: Section) -> None:
            path = os.path.join(measures.target, writer.part(measures, section.number))
            with _telling(path):
                if path not in streams:
                    streams[path] = files.enter_context(replaced(path))
                writer.write(measures, section, streams[path], pretty=pretty)

        for section in ahead(measures.sections()):
            measures.section_count = section.number + 1
            for done in [threads.submit(add, writer, section) for writer in wanted]:
                done.result()
            if progress is not None:
                progress.at(Stage.WRITING, section.before + section.spans.height)
    for writer in writers:
        _remove_parts(writer, measures, measures.section_count if writer in wanted else 1)
    return list(streams)


def _remove_parts(writer: SectionWriter, measures: Measures, number: int) -> None:
    """Remove the files of the sections from `number` on."""
    while True:
        path = os.path.join(measures.target, writer.part(measures, number))
        if writer.part(measures, 1) == writer.path(measures) or not os.path.lexists(path):
            return
        with _telling(path):
            os.unlink(path)
        number += 1


def _ready(artefact: Artefact, measures: Measures, path: str) -> bool:
    """Make the folder of an artefact, or remove an older one that no longer applies; tell whether it does."""
    folder = os.path.dirname(path)
    if os.path.islink(folder):
        raise StoreError(f"{folder} is a symbolic link; nothing is written through one.")
    if not artefact.applies(measures):
        if os.path.lexists(path):
            os.unlink(path)
        return False
    os.makedirs(folder, layout.DIRECTORY_MODE, exist_ok=True)
    return True


@contextmanager
def _telling(path: str) -> Iterator[None]:
    """Turn errors of the system into ours, which name the file."""
    try:
        yield
    except OSError as error:
        raise MsProfilerError(f"Cannot write {path}: {error.strerror}.", _REMEDY) from error
    except sqlite3.Error as error:
        raise MsProfilerError(f"Cannot write {path}: {error}.", _REMEDY) from error


@contextmanager
def replaced(path: str) -> Iterator[BinaryIO]:
    """Open a file beside `path` that takes its place when the block ends, and vanishes when the block raises."""
    with _beside(path) as (_, descriptor), os.fdopen(descriptor, "wb", buffering=1 << 20) as stream:
        yield stream


@contextmanager
def database(path: str) -> Iterator[sqlite3.Connection]:
    """Open a database beside `path`, in a transaction; otherwise as `replaced` does."""
    with _beside(path) as (temporary, descriptor):
        os.close(descriptor)
        # without an isolation level the module begins and ends no transaction of its own
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()


@contextmanager
def _beside(path: str) -> Iterator[tuple[str, int]]:
    """Make an empty file beside `path`, and yield its name and descriptor, which the block has to close."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, layout.FILE_MODE)
    try:
        yield temporary, descriptor
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
