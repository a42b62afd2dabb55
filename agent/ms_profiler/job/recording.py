"""A recording, which makes one result directory: its options, its begin, and its end.

The main recording is that of MS_PROFILER_OPTIONS, and lasts as long as the process. A script that calls the profiler
opens one more recording at each start. If such a recording runs during the main recording, both share the same files of
records, and the analysis of each recording covers only the time of that recording. The run's record is the file
`run_info.json` in the result directory.
"""

import contextlib
import dataclasses
import os
import posix
import sys
from collections.abc import Callable, Iterable
from socket import gethostname
from typing import TYPE_CHECKING, Any

from ms_profiler import clock, log, options, paths
from ms_profiler.job import actors, attempts, process
from ms_profiler.options import OPTIONS
from ms_profiler.store import alive, anonymous, layout, run_info
from ms_profiler.store.format import SLOT_SIZE, StepSource

if TYPE_CHECKING:
    from ms_profiler.job.recorder import Recorder
    from ms_profiler.job.recorder.contract import RecorderStats
    from ms_profiler.job.steps import Steps

#: A run takes at most 1 / FREE_SHARE of the free disk space, whatever `max_disk` says.
FREE_SHARE = 10
#: Seconds that the end of a recording waits for a file system.
PATIENCE = 10.0
#: Recording begins only if the records may take at least this many bytes on disk.
LEAST = 256_000
#: Number of records that the first file of a thread holds: in the main process, and in a fork child. A fork child has
#: smaller files, because a job may have many fork children.
FIRST_SLOTS, CHILD_SLOTS = 2048, 256
#: The first file of a thread takes at most 1 / FIRST_SHARE of the disk limit, but holds at least SLOTS_LEAST records.
FIRST_SHARE, SLOTS_LEAST = 64, 64


def new_process(role: str, name: str, recorder: str, reason: str) -> run_info.ProcessInfo:
    """Return a new description of this process, which becomes its file `process_info.json`.

    Args:
        role: main, fork or spawn.
        name: name of the process in the job.
        recorder: "native" or "python".
        reason: why the recorder is not the native one; empty for the native one.
    """
    return run_info.ProcessInfo(
        pid=posix.getpid(),
        parent=posix.getppid(),
        process_start=alive.process_start(),
        role=role,
        name=name,
        recorder=recorder,
        recorder_reason=reason,
    )


def count_records(record: run_info.ProcessInfo, stats: "RecorderStats") -> None:
    """Note in the description of a process how many records it has made and lost."""
    record.records, record.threads = stats.records, stats.threads
    record.dropped, record.dropped_limit = stats.dropped, stats.dropped_limit


class Recording:
    """A result directory that is being made.

    Args:
        settings: the resolved options.
        messages: the lines about the options that were printed before this recording was made.
        identity: rank and device of this process.
    """

    def __init__(self, settings: options.Options, messages: list[str], identity: process.Identity) -> None:
        self.options = settings
        self.identity = identity
        self.result = ""
        #: whether the file system has answered so far
        self.reachable = True
        #: metadata of the script: key -> text or JSON value
        self.metadata: dict[str, object] = {}
        actor = actors.describe()
        hidden = anonymous.word if settings.anonymize else str
        self.info = run_info.RunInfo(
            product_version=process.product_version(),
            pid=posix.getpid(),
            host=hidden(gethostname()),
            boot_id=hidden(alive.boot_id()),
            process_start=alive.process_start(),
            options=settings.as_dict(),
            messages=messages,
            rank=identity.rank,
            rank_known=identity.known,
            local_rank=identity.local_rank,
            world_size=identity.world_size,
            device_id=identity.device_id,
            role=actor.pop("role", ""),
            actor=actor,
            job=hidden(identity.job),
            python=".".join(map(str, sys.version_info[:3])),
            machine=process.machine(),
        )

    def make(self, base: str, name: str = "") -> bool:
        """Make the result directory, and return whether it exists; print a line if it is not in the requested place.

        Args:
            base: directory from which a relative `output_path` starts.
            name: first part of the directory's name, in place of the host's name.
        """
        path, message = process.choose_output(self.options.output_path, base)
        if message:
            log.line(message)
            self.info.messages.append(message)
        if path is None:
            return False
        self.info.attempt, self.info.before = attempts.earlier(path, self.identity, self.info, os.environ)
        try:
            self.result = _make(path, name or self.info.host)
        except OSError as reason:
            log.line(f"cannot make a result directory in {path}: {reason}. This run is not profiled.")
            return False
        return True

    def begin(self, now_ns: int) -> None:
        """Note the begin of the recording, and the options that have no effect on this machine.

        Args:
            now_ns: the current time, CLOCK_MONOTONIC_RAW ns.
        """
        self.info.started_ns = now_ns
        self.info.started_wall = clock.wall()
        for option, why in options.unavailable_on_cpu(self.options):
            self.not_collected(option, why)

    def cut(self, now_ns: int, steps: "Steps") -> None:
        """Note the end of this recording, after which the job continues.

        Args:
            now_ns: the current time, CLOCK_MONOTONIC_RAW ns.
            steps: the steps of the job, including the running one.
        """
        window = {"start_ns": self.info.started_ns, "shift": 0} | self.info.window | {"end_ns": now_ns}
        begun, source = steps.running, steps.source
        # If the script reports the steps, the running step ends only when the script reports its end.
        if begun is not None and source not in (None, StepSource.SCRIPT):
            window |= {"step": steps.number, "step_ns": begun, "source": int(source)}
        self.info.window = window

    def is_reachable(self, recorder: "Recorder") -> bool:
        """Return whether the file system answers; if it does not, print a line and abandon the recording.

        The records on disk stay as they are, as after a kill of the job.

        Args:
            recorder: the recorder that writes into the result.
        """
        if self.reachable and not recorder.answers(PATIENCE):
            self.reachable = False
            log.line(f"the file system of {self.result} has not answered for {PATIENCE:g} s, so recording into it ends")
        return self.reachable

    @property
    def folder(self) -> str:
        """Return the folder of this process in the result directory."""
        return layout.process_dir(self.result, posix.getpid())

    def limit(self) -> tuple[int, str]:
        """Return the bytes that the records of all processes of this result may take, and what sets this limit.

        Raises:
            OSError: the limit is too small to record; no empty folder is left behind.
        """
        disk = posix.statvfs(self.result)
        share = disk.f_bavail * disk.f_frsize // FREE_SHARE
        name = "max_disk" if self.options.max_disk <= share else "a tenth of the free disk space"
        limit = layout.recorded_share(min(self.options.max_disk, share))
        if limit < LEAST:
            self._remove_empty()
            raise OSError(f"{name} leaves {limit // 1000} kB, {LEAST // 1000} are needed")
        return limit, name

    def fill(self, recorder: "Recorder", limit: int, first_slots: int = FIRST_SLOTS) -> None:
        """Open the recorder in a folder of this process.

        Args:
            recorder: the recorder of this process.
            limit: bytes that all processes together may take.
            first_slots: number of records that the first file of a thread holds, if the limit allows that many.

        Raises:
            OSError: the folder cannot be made; no empty folder is left behind.
        """
        try:
            self._fill(recorder, limit, first_slots)
        except OSError:
            self._remove_empty()
            raise

    def _remove_empty(self) -> None:
        with contextlib.suppress(OSError):
            posix.rmdir(self.folder)
        with contextlib.suppress(OSError):  # a result into which another process records is not empty
            for name in (layout.FRAMEWORK, layout.LOGS, ""):
                posix.rmdir(paths.join(self.result, name))

    def _fill(self, recorder: "Recorder", limit: int, first_slots: int) -> None:
        while first_slots > SLOTS_LEAST and first_slots * SLOT_SIZE * FIRST_SHARE > limit:
            first_slots //= 2
        folder = self.folder
        paths.makedirs(folder, layout.DIRECTORY_MODE)
        account = layout.account_path(self.result)
        recorder.open(folder, first_slots=first_slots, account=account, limit=limit, memory=self.options.max_memory)

    @property
    def speaks(self) -> bool:
        """Return whether this process prints lines at its start and end."""
        return self.identity.rank == 0 and not self.options.quiet

    def say(self, message: str) -> None:
        """Print a line if this is rank 0. With the option `quiet`, write it into `run_info.json` instead."""
        if self.speaks:
            log.line(message)
        elif self.options.quiet:
            self.note(message)

    def not_collected(self, what: str, why: str) -> None:
        """Note for `run_info.json` which data the result lacks, and why."""
        more = {"what": "more of this list", "why": f"only {run_info.NOTES} are kept"}
        run_info.note(self.info.not_collected, {"what": what, "why": why}, more)

    def note(self, message: str) -> bool:
        """Note a line for `run_info.json`, and return whether the line is new there."""
        return run_info.note(self.info.messages, message, f"only {run_info.NOTES} messages are kept")

    def collected(self, options: Iterable[str]) -> None:
        """Remove the notes that these options have no effect, because they do have one.

        Args:
            options: the names of the options.
        """
        inert = [entry for entry in self.info.not_collected if entry["what"] in options]
        for entry in inert:
            if entry["why"] == OPTIONS[entry["what"]].inert:
                self.info.not_collected.remove(entry)

    def save(self) -> None:
        """Write the description of the run, `run_info.json`, into the result directory."""
        run_info.write(layout.run_info_path(self.result), self.info, self.as_dict)

    @property
    def as_dict(self) -> Callable[[run_info.RunInfo | run_info.ProcessInfo], dict[str, Any]]:
        """Return the function that turns a record into a dictionary, with names replaced for `anonymize`."""
        return anonymous.record if self.options.anonymize else dataclasses.asdict

    def link(self, folder: str) -> None:
        """Link the files of records in `folder`, which another recording has made, into the folder of this recording.

        Hard links are used where possible: a file that is still written then grows in both folders. The analysis leaves
        out records from before or after this recording.
        """
        for directory, names in paths.files(folder):
            target = paths.join(self.folder, paths.relpath(directory, folder))
            paths.makedirs(target, layout.DIRECTORY_MODE)
            for name in names:
                if name != layout.PROCESS_INFO and not name.endswith(".tmp"):
                    _link(paths.join(directory, name), paths.join(target, name))


def _make(path: str, host: str) -> str:
    """Make a new result directory in `path`; try later times if the name with the current millisecond exists."""
    wall = clock.wall()
    for attempt in range(100):
        result = paths.join(path, layout.result_name(host, posix.getpid(), wall + attempt / 1000))
        try:
            posix.mkdir(result, layout.DIRECTORY_MODE)
        except FileExistsError:
            continue
        posix.mkdir(layout.framework_dir(result), layout.DIRECTORY_MODE)
        posix.mkdir(paths.join(result, layout.LOGS), layout.DIRECTORY_MODE)
        return result
    raise FileExistsError(f"{result} and the ninety-nine before it exist")


def _link(source: str, target: str) -> None:
    try:
        posix.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        pass  # this file was made for further records; the recorder did not need it, and has deleted it
    except FileExistsError:
        pass
    except OSError:  # the target is on another file system, or the file system has no hard links
        import shutil  # the import takes 3 ms, and is not needed where links can be made

        shutil.copyfile(source, target, follow_symlinks=False)
        posix.chmod(target, layout.FILE_MODE)
