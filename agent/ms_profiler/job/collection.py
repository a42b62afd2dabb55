"""Keep the one session of this process: the object that holds the hooks, the recorder and the recordings.

The import of a framework, or a call of the profiler by the script, makes the session.
"""

import contextlib
import importlib
import os
from collections.abc import Iterator
from threading import RLock
from typing import Any

from ms_profiler import log, options
from ms_profiler.errors import StateError
from ms_profiler.job import kinship, origin, process
from ms_profiler.job.recording import Recording
from ms_profiler.job.session import Session
from ms_profiler.store.format import Category, Kind
from ms_profiler.store.names import REQUESTED

#: reentrant, because a signal handler may import a framework on the thread that holds the lock
_lock = RLock()
_current: Session | None = None
_asked = False


def current() -> Session | None:
    """Return the session of this process, or None before a session is opened."""
    return _current


def framework_imported(name: str, module: Any, start_ns: int, end_ns: int) -> None:
    """Open the main recording if this process is to be profiled, and hook the framework.

    Args:
        name: name of the framework's top-level module.
        module: the module itself.
        start_ns: begin of the import, CLOCK_MONOTONIC_RAW ns.
        end_ns: end of the import, CLOCK_MONOTONIC_RAW ns.
    """
    global _current, _asked
    with _lock:
        first, _asked = not _asked, True
        if first:
            _open(end_ns)
        if _current is not None:
            _current.add_framework(name, module, start_ns, end_ns)


def _open(since_ns: int) -> None:
    global _current
    parsed = options.parse(os.environ.get(origin.VARIABLE))
    identity = process.identity(os.environ)
    parent = kinship.find(os.environ)
    if parent is None and identity.rank == 0:
        for message in parsed.messages:
            log.line(message)
    if parsed.options is None or not identity.selected(parsed.options.ranks):
        return
    if parent is not None and not parent.directory:
        return  # the parent records some steps on demand; this process records nothing
    if _current is None:
        _current = Session(identity, parsed.options.anonymize)
    if parsed.options.dynamic is not None:
        _current.watch(parsed.options)
        return
    recording = Recording(parsed.options, list(parsed.messages), identity)
    if not _current.open(recording, parent, since_ns) and not _current.hooks.plugins:
        _current = None


def for_script(anonymous: bool = False) -> Session:
    """Return the session of this process; make it if there is none. The session hooks each framework after its import.

    Args:
        anonymous: whether a new session replaces names of the job; an existing session keeps its setting.

    Raises:
        StateError: this is not the main interpreter of the process. The extension has one state for the whole process.
    """
    global _current
    if not _is_main():
        raise StateError("A profiler records only in the main interpreter of a process.", "Call it there.")
    with _lock:
        if _current is None:
            _current = Session(process.identity(os.environ), anonymous)
        session = _current
    session.hooks.add_all(session.add_framework)
    return session


@contextlib.contextmanager
def requested() -> Iterator[None]:
    """Note the time of a block, in which ms-profiler does what the script requested, as work of ms-profiler."""
    session = _current
    if session is None or not session.recordings:
        yield
        return
    recorder = session.recorder
    begun = recorder.now()
    try:
        yield
    finally:
        if session.recordings:
            with session.guard("noting the work of the script's profiler"):
                now = recorder.now()
                recorder.record(Kind.SPAN, Category.PROFILER, 0, recorder.intern(REQUESTED), begun, now, 0)
                session.steps.profiler_worked(now)


def _is_main() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):  # CPython 3.13 and newer, then older versions
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() == interpreters.get_main())
    return True
