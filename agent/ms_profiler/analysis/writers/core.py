"""Open files of the result, replace them atomically, and remove half-written ones. All writers use this module.

A section is an interval of a run. A run that is too large for memory is written in several sections, any other run in
one section.
"""

import gzip
import io
import os
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import BinaryIO, Final, Protocol, cast, runtime_checkable

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.driver.ahead import ahead
from ms_profiler.analysis.driver.fitting import left_out
from ms_profiler.analysis.driver.progress import Progress, Stage
from ms_profiler.analysis.driver.room import Bounded, FullError, Room
from ms_profiler.analysis.driver.sections import COUNT, Section
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.errors import MsProfilerError, StoreError
from ms_profiler.store import layout

#: suffix of the names of compressed files
PACKED: Final = ".gz"
_REMEDY: Final = (
    "Is there space left, and may you write there? `ms-profiler analyse DIR --output DIR` writes elsewhere."
)
#: Polars raises `ComputeError` for errors of many kinds. Its message has this text if the operating system caused it.
_OF_SYSTEM: Final = "(os error "
#: size of a database page in bytes
_PAGE: Final = 4096
#: Settings while a database is written. They turn off the journal, because no other process opens the temporary file.
_PRAGMAS: Final = (
    f"page_size = {_PAGE}",
    "journal_mode = OFF",
    "synchronous = OFF",
    "locking_mode = EXCLUSIVE",
    "temp_store = MEMORY",
)


class Artefact(Protocol):
    """The interface of a file that an analysis writes. A module or an object may implement the interface."""

    def path(self, measures: Measures) -> str:
        """Return the path of the file, relative to the result directory."""

    def applies(self, measures: Measures) -> bool:
        """Return whether there is data to write; without data there is no file."""


class Writer(Artefact, Protocol):
    """A file that is written in one go."""

    def write(self, measures: Measures, stream: BinaryIO) -> None:
        """Write the content; the same measures give the same bytes."""


class SectionWriter(Artefact, Protocol):
    """A file that is written section by section, or several files, one for each section."""

    def part(self, measures: Measures, number: int) -> str:
        """Return the path of the file for a section; the first section goes to `path`."""

    def write(self, measures: Measures, section: Section, stream: BinaryIO) -> None:
        """Write a section; the same measures give the same bytes."""


@runtime_checkable
class Database(Artefact, Protocol):
    """A file that is an SQLite database."""

    def fill(self, measures: Measures, connection: sqlite3.Connection) -> None:
        """Make all tables, inside one transaction; the same measures give the same bytes."""


def refuse_links(target: str) -> None:
    """Refuse a result directory that is a symbolic link, or whose folders are symbolic links. Change nothing.

    Args:
        target: the result directory.

    Raises:
        StoreError: the directory, or one of its folders, is a symbolic link.
    """
    result = target.rstrip(os.sep)
    for folder in (result, layout.output_dir(result), os.path.join(result, layout.TABLES)):
        if os.path.islink(folder):
            raise StoreError(
                f"{folder} is a symbolic link; nothing is written through one.",
                f"Name the target of the link: {os.path.realpath(folder)}.",
            )


def write(writer: Writer | Database, measures: Measures) -> str | None:
    """Write one file, and return its path.

    If the run has no data for the file, or if there is no room, remove the file of an earlier analysis and return None.

    Args:
        writer: the writer.
        measures: the measures of the run.

    Raises:
        MsProfilerError: the file cannot be written.
        StoreError: a symbolic link is in the way.
    """
    path = os.path.join(measures.target, writer.path(measures))
    with _naming(path):
        if not _ready(writer, measures, path):
            return None
        try:
            if isinstance(writer, Database):
                with database(path, measures.room) as connection:
                    writer.fill(measures, connection)
            else:
                with replaced(path, measures.room) as stream:
                    writer.write(measures, stream)
        except FullError:
            left_out(measures, writer.path(measures))
            with suppress(FileNotFoundError):
                os.unlink(path)  # an older file belongs to another analysis
            return None
    return path


def write_sections(
    writers: Sequence[SectionWriter], measures: Measures, progress: Progress | None = None, room: Room | None = None
) -> list[str]:
    """Write files section by section, and return their paths.

    Each section is read once for all writers, and all their files are replaced together.

    Args:
        writers: the writers.
        measures: the measures of the run.
        progress: receives the progress after each section.
        room: the number of bytes that the files may take together; None for the room that the analysis has left.

    Raises:
        FullError: the files would take more bytes than `room`; no file is replaced.
        MsProfilerError: a file cannot be written.
        StoreError: a symbolic link is in the way.
    """
    progress = progress or Progress(measures.target, None)
    room = measures.room if room is None else room
    wanted = []
    for writer in writers:
        path = os.path.join(measures.target, writer.path(measures))
        with _naming(path):
            if _ready(writer, measures, path):
                wanted.append(writer)
    streams: dict[str, BinaryIO] = {}
    with ExitStack() as files, ThreadPoolExecutor(max(len(wanted), 1), "ms-profiler-writer") as threads:

        def add(writer: SectionWriter, section: Section) -> None:
            path = os.path.join(measures.target, writer.part(measures, section.number))
            with _naming(path):
                if path not in streams:
                    files.enter_context(_naming(path))  # closing a file writes its buffer, which may fail
                    stream = files.enter_context(replaced(path, room))
                    streams[path] = files.enter_context(_packing(stream)) if path.endswith(PACKED) else stream
                writer.write(measures, section, streams[path])

        for section in ahead(measures.sections()):
            measures.section_count = section.number + 1
            for done in [threads.submit(add, writer, section) for writer in wanted]:
                done.result()
            COLUMNS.trim()
            progress.at(Stage.WRITING, section.before + section.spans.height)
    return sorted(streams)


def tidy(writers: Sequence[SectionWriter], measures: Measures, written: Sequence[str]) -> None:
    """Remove files that an earlier analysis wrote for a section, and that this analysis did not write.

    There are two reasons for such a file. The earlier analysis had more sections. Or only one of the two analyses
    compressed the file, so that its name differs.

    Args:
        writers: the writers of sections.
        measures: the measures of the run.
        written: the paths of the files that this analysis wrote.
    """
    parts = {writer.part(measures, number).removesuffix(PACKED) for writer in writers for number in range(COUNT)}
    paths = [os.path.join(measures.target, part + form) for part in parts for form in ("", PACKED)]
    for path in paths:
        if path not in written and os.path.lexists(path):
            with _naming(path):
                os.unlink(path)


def _ready(artefact: Artefact, measures: Measures, path: str) -> bool:
    """Return whether the run has data for a file. If so, make the file's folder; otherwise remove an older file."""
    refuse_links(measures.target)
    if not artefact.applies(measures):
        if os.path.lexists(path):
            os.unlink(path)
        return False
    os.makedirs(os.path.dirname(path), layout.DIRECTORY_MODE, exist_ok=True)
    return True


def _packing(stream: BinaryIO) -> AbstractContextManager[BinaryIO]:
    """Return a stream that packs bytes with gzip; the same bytes always give the same file."""
    # level 1: 59 MB of a timeline become 5.4 MB in 0.54 s; with the usual level they become 4.4 MB in 0.84 s
    return cast(AbstractContextManager[BinaryIO], gzip.GzipFile("", "wb", 1, stream, mtime=0))


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Turn errors of the operating system, SQLite and Polars into an `MsProfilerError` that names the file."""
    try:
        yield
    except FullError:
        raise
    except OSError as error:
        raise MsProfilerError(f"Cannot write {path}: {error.strerror}.", _REMEDY) from error
    except sqlite3.Error as error:
        raise MsProfilerError(f"Cannot write {path}: {error}.", _REMEDY) from error
    except pl.exceptions.ComputeError as error:
        if _OF_SYSTEM not in str(error):
            raise
        raise MsProfilerError(f"Cannot write {path}: {str(error).rpartition(': ')[2]}.", _REMEDY) from error


@contextmanager
def replaced(path: str, room: Room | None = None) -> Iterator[BinaryIO]:
    """Open a temporary file. It replaces `path` at the end of the block, and is removed if the block raises.

    Raises:
        FullError: the file would take more bytes than `room` has left.
    """
    with _beside(path) as (_, descriptor):
        room = room or Room()
        bounded = Bounded(descriptor, room)
        try:
            with io.BufferedWriter(bounded, 1 << 20) as stream:
                yield stream
                stream.flush()
        except BaseException:
            room.take(-bounded.taken)
            raise


@contextmanager
def database(path: str, room: Room) -> Iterator[sqlite3.Connection]:
    """Open a temporary database, with an open transaction. The database replaces `path` as in `replaced`."""
    with _beside(path) as (temporary, descriptor):
        os.close(descriptor)
        most = None if room.left is None else max(room.left // _PAGE, 1)
        # with isolation level None, Python's module begins and ends no transactions
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            if most is not None:
                connection.execute(f"PRAGMA max_page_count = {most}")
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
            room.take(os.stat(temporary).st_size)
        except sqlite3.OperationalError as error:
            # SQLite raises the same error for a full disk and for a reached `max_page_count`. So look at the number of
            # pages
            if most is not None and connection.execute("PRAGMA page_count").fetchone()[0] >= most:
                raise FullError from error
            raise
        finally:
            connection.close()


@contextmanager
def _beside(path: str) -> Iterator[tuple[str, int]]:
    """Make an empty temporary file in the folder of `path`, and yield its name and descriptor.

    The block has to close the descriptor. The file replaces `path` at the end of the block, and is removed if the block
    raises.
    """
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
