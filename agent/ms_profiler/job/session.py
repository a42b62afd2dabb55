"""The session of this process: it holds the hooks, the recorder and the recordings.

There is a `Recording` for MS_PROFILER_OPTIONS, and one for each start of a profiler by the script. While at least one
recording is open, the session records into the directory of the recording that was opened first. The recording of
MS_PROFILER_OPTIONS opens after the import of a framework, and atexit closes this recording. If a process is killed,
nothing is lost: its records are on disk, and the file `run_info.json` of the run is up to date.
"""

import atexit
import os
import posix
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from ms_profiler import log, options, paths
from ms_profiler.job import handover, kinship, origin, process, rank, recorder
from ms_profiler.job.budget import Budget
from ms_profiler.job.control import dynamic
from ms_profiler.job.devices.devices import Devices
from ms_profiler.job.frameworks import base
from ms_profiler.job.guard import RAISE, Guard, Late, Uncollected, words
from ms_profiler.job.hooks import Hooks
from ms_profiler.job.recorder.contract import NO_MEMORY
from ms_profiler.job.recording import CHILD_SLOTS, Recording, count_records, new_process
from ms_profiler.job.schedule import Schedule
from ms_profiler.job.script_steps import ScriptSteps
from ms_profiler.job.sources import NEVER, Sources
from ms_profiler.store import layout, run_info
from ms_profiler.store.format import StepSource


class Session:
    """Hold the hooks, the recorder and the recordings of this process, and begin and end its recordings.

    Args:
        identity: rank and device of this process.
        anonymous: whether to replace names of the job in every recording.
    """

    def __init__(self, identity: process.Identity, anonymous: bool = False) -> None:
        self.identity, self.anonymous = identity, anonymous
        self.recorder, self._reason = recorder.create(anonymous=anonymous)
        self.recordings: list[Recording] = []  # the open ones; the directory of the first receives the records
        self.home: Recording | None = None  # the recording whose directory receives the records, or received them last
        self.process = run_info.ProcessInfo()
        self.steps = ScriptSteps(self.recorder, None, self._steps_decided, self._stepped)
        self.owner = True  # whether this process made the result directory; a child only adds a folder for itself
        self.forked = False
        self.sources = Sources(self.guard)
        self.devices = Devices(self)
        self.hooks = Hooks(self, self.devices.targets)
        #: bytes on disk that the records of all processes may take
        self.limit, self.limited_by = 0, ""
        self._failures: set[str] = set()
        self._budget = Budget(self)
        self.main: Recording | None = None  # the recording of MS_PROFILER_OPTIONS
        self.parent: kinship.Parent | None = None  # for a child, the process that made the result directory
        self._dynamic: dynamic.Dynamic | None = None  # watches the file of the option `dynamic`

    # -- beginning

    def open(self, recording: Recording, parent: "kinship.Parent | None", since_ns: int) -> bool:
        """Begin the recording of MS_PROFILER_OPTIONS, print where the result is, and return whether it began.

        Args:
            recording: the recording of MS_PROFILER_OPTIONS.
            parent: the profiled process to whose result this process adds its records, if any.
            since_ns: time at which ms-profiler began to start, ns; the time since then counts as cost of profiling.
        """
        if parent is not None:
            recording.result, self.owner, self.parent = parent.directory, False, parent
        elif not recording.make(origin.directory):
            return False
        self.take(recording)
        self.hooks.redirects = True
        if not self.start(recording):
            return False
        recording.info.cost["start_ns"] = self.recorder.now() - since_ns
        if parent is not None and parent.forks:
            process.when_child_ends(self._end_child)
        self.save()
        kinship.announce(recording.result)
        if self.owner:
            result = recording.result
            recording.say(f"recording to {result} ; if the job is killed, run: ms-profiler analyse {result}")
        return True

    def take(self, recording: Recording) -> None:
        """Make this the recording of MS_PROFILER_OPTIONS, with its schedule."""
        self.main = recording
        self.steps.reset(Schedule.from_option(recording.options.schedule))

    def watch(self, settings: options.Options) -> None:
        """Record only while the file of the option `dynamic` requests it."""
        self.hooks.redirects = True
        kinship.announce("")
        self._dynamic = dynamic.watch(self, settings, origin.directory)
        if self._dynamic:
            self._dynamic.begins(1)

    def start(self, recording: Recording, number: int | None = None) -> bool:
        """Record into one more result directory, which exists; return whether that worked.

        Args:
            recording: the recording of the directory.
            number: the number of the current step by the script's count; by default the session's own number.
        """
        if self.recordings and base.forked:
            self.reopen()  # this fork child has recorded nothing yet
        if self.recordings:
            self._end_sources()  # the sources write the data that they have before this recording begins
        elif not self._open_store(recording):
            return False
        info = recording.info
        recording.begin(self.recorder.now())
        if self.recordings or number is not None or self.steps.count:
            shift = 0 if number is None else number - self.steps.number
            info.window = {"start_ns": info.started_ns, "end_ns": 0, "shift": shift}
        self.recordings.append(recording)
        self._settle_pause()
        self.hooks.describe(recording)
        self.steps.next_look = 0
        self.sources.started()
        self.save()
        return True

    def _open_store(self, recording: Recording) -> bool:
        """Make the recorder write into the folder of this recording; if it cannot, print one line with the reason."""
        try:
            self.limit, self.limited_by = recording.limit()
            recording.fill(self.recorder, self.limit)
        except OSError as error:
            if self.owner:  # print no line in a child: a file of the result counts the children that cannot record
                log.line(f"cannot record into {recording.folder}: {error}. This run is not profiled.")
            return False
        if self.home is None:
            atexit.register(self._at_exit)
            posix.register_at_fork(after_in_child=recorder.shield(self._after_fork, self.guard("a fork")))
        self.home = recording
        self.process = self._new_process("main" if self.owner else "spawn")
        self._budget.open(recording.options.overhead_budget)
        return True

    def _new_process(self, role: str) -> run_info.ProcessInfo:
        name = "job" if role == "main" else process.name(role)
        return new_process(role, name, self.recorder.kind, self._reason)

    def add_framework(self, name: str, module: Any, start_ns: int, end_ns: int) -> None:
        """Hook a framework that has just been imported; do nothing if the framework is hooked already."""
        begun = self.recorder.now()
        if not self.hooks.add(name, start_ns, end_ns):
            return
        for recording in self.recordings:
            self.hooks.describe(recording)
            recording.info.cost["start_ns"] = recording.info.cost.get("start_ns", 0) + self.recorder.now() - begun
        self.save()

    # -- the interface of `host.Host`

    @property
    def redirects(self) -> bool:
        """Return whether classes of ms-profiler replace the frameworks' own profiler classes."""
        return self.hooks.redirects

    @property
    def left_running(self) -> str:
        """Return why a framework's own profiler keeps running; empty when none does."""
        return next((plugin.left_running for plugin in self.hooks.plugins if plugin.left_running), "")

    @property
    def targets(self) -> set[str]:
        """Return the kinds of devices that the frameworks report: "CPU", "GPU", "Ascend"."""
        return {plugin.describe().get("device", "") for plugin in self.hooks.plugins}

    def become(self, number: int, world_size: int) -> None:
        """Continue as another rank, because the framework reports the number of this rank only now."""
        rank.settle(self, number, world_size)

    # -- while it runs

    def wants(self, activity: str) -> bool:
        """Return whether the options of any open recording contain this activity."""
        return any(activity in recording.options.activities for recording in self.recordings)

    def asks(self, option: str) -> bool:
        """Return whether the options of any open recording switch this option on."""
        return any(getattr(recording.options, option) for recording in self.recordings)

    def not_collected(self, what: str, why: str) -> None:
        """Note in every open result that something is missing, and why; a child notes it in its own folder, too."""
        if self.forked or not self.owner:
            self.process.not_collected(what, why)
        for recording in self.recordings:
            recording.not_collected(what, why)

    def failed(self, what: str, reason: BaseException) -> None:
        """Print a line about an error of ms-profiler, and note it in `run_info.json` of each open recording."""
        if os.environ.get(RAISE) == "1":
            raise reason
        message = f"{what} failed ({words(reason)}); the job continues without it"
        # a failure that repeats at every step is printed once, even if its reason varies
        if what not in self._failures:
            self._failures.add(what)
            log.line(message)
        for recording in self.recordings:
            recording.note(message)

    def guard(self, what: str) -> "Guard":
        """Return a context manager that notes and suppresses errors of ms-profiler in its block."""
        return Guard(self.failed, what)

    def at_step(self, call: Callable[[int], tuple[int, bool]], follows: bool = True) -> None:
        """Register a function to call between steps, on the thread that runs them; see `host.Host.at_step`."""
        self.sources.step.append(call)
        if not follows:
            self.sources.periodic.append(call)

    def at_start(self, call: Callable[[], None]) -> None:
        """Register a function to call when recording begins or continues; call it now if recording has begun."""
        self.sources.start.append(call)
        if self.recordings:
            call()

    def at_end(self, call: Callable[[], None]) -> None:
        """Register a function to call before recording ends or moves to another result."""
        self.sources.end.append(call)

    def at_child(self, start: Callable[[], None], end: Callable[[], None]) -> None:
        """Register functions to call in a fork child: when it begins to record, and before it ends."""
        self.sources.child.append((start, end))

    def _end_sources(self) -> None:
        """Call the functions that are registered for the end of recording in this process."""
        if self.forked:
            self.sources.child_ended()
        else:
            self.sources.ended()

    def _settle_pause(self) -> None:
        """Record all steps while a recording of the script is open; else follow the schedule of the main recording."""
        self.steps.override_schedule(any(recording is not self.main for recording in self.recordings))

    def _steps_decided(self, source: StepSource) -> None:
        begun = self._budget.decided()
        with self.guard("describing the frameworks"):
            for recording in self.recordings:
                self.hooks.describe(recording, works=True)
        self.save()
        self._budget.worked(begun)

    def _stepped(self, count: int) -> bool:
        due, took_time, arrived = NEVER, False, self.recorder.now()
        if self._dynamic:
            due, took_time = count + 1, self._dynamic.between(self.steps.number)
        if self.recordings:
            every, self.steps.next_look = not self.steps.next_look, 0  # 0 stays if an exception of the job comes
            marks, sampled = self.steps.marks, self.steps.marks.sampled
            wanted = self._budget.look(count)
            if self.steps.idle and not every:
                due = min(due, wanted, self._budget.idle(count))
            else:
                begun = self.recorder.now()
                next_call, took = self.sources.stepped(count, every, marks.sampled is not sampled)
                if took:
                    self._budget.spend(self.recorder.now() - begun)
                due, took_time = min(due, wanted, next_call), took_time or took
        self.steps.next_look = due
        return self._budget.worked(arrived) or took_time

    def expect(self, what: str, ns: float) -> None:
        """Note an estimate, in ns, of the time in each step that `what`, a framework's own recorder, takes."""
        self._budget.expected[what] = ns

    def save(self) -> None:
        """Write `run_info.json` of each open recording, and `process_info.json` of this process."""
        with self.guard("writing the run's record"):
            if self.owner and not self.forked:
                for recording in self.recordings:
                    recording.info.cost.update(self._budget.cost)
                    recording.save()
            if self.home is not None:
                run_info.write(paths.join(self.home.folder, layout.PROCESS_INFO), self.process, self.home.as_dict)

    # -- fork

    def _after_fork(self) -> None:
        """Forget the parent's files of records; this fork child makes its own files with its first record."""
        self.forked = True
        with self.guard("a fork"):
            self.steps.forked()
            base.forked.append(self)

    def reopen(self) -> None:
        """Record into a new folder from now on, in a fork child whose parent was recording at the time of the fork."""
        base.forked.clear()
        home = self.home
        if home is None or not self.recordings:
            return
        with self.guard("recording in a fork child"), Uncollected():
            try:
                home.fill(self.recorder, self.limit, CHILD_SLOTS)
            except OSError:
                return  # print no line, because there may be many children: a file of the result counts them
            self.process = self._new_process("fork")
            self.save()
            process.when_child_ends(self._end_child)
            self.sources.child_started()

    # -- ending

    def stop(self, recording: Recording, end: str = "stopped") -> None:
        """End one recording.

        Args:
            recording: one of `recordings`.
            end: the reason, for the file `process_info.json`.
        """
        if recording not in self.recordings:
            return
        others = [other for other in self.recordings if other is not recording]
        if not recording.is_reachable(self.recorder):
            self.recordings = others
            return
        self._end_sources()
        with self.guard("closing a recording"):
            self.steps.close()
            if recording is not self.main:
                recording.cut(self.recorder.now(), self.steps)
            self.hooks.describe(recording, works=True)
        home = self.home
        if not others:
            self._close_store(end)
        if home is not recording:
            with self.guard("sharing a store"):
                self._share(recording, end)
        self.save()
        self.recordings = others
        self._settle_pause()
        self.steps.next_look = 0
        if home is not None and others:
            self.sources.started()

    def _share(self, recording: Recording, end: str) -> None:
        """Link the files of records, which are in another recording's directory, into that of an ended recording."""
        home, stats = self.home, self.recorder.stats()
        if home is None:
            return
        recording.link(home.folder)
        record = self._new_process("main" if self.owner else "spawn")
        record.state, record.end, record.ended_ns = "ended", end, recording.info.window["end_ns"]
        count_records(record, stats)
        run_info.write(paths.join(recording.folder, layout.PROCESS_INFO), record, recording.as_dict)

    def _close_store(self, end: str) -> None:
        with self.guard("closing the recording"):
            stats = self.recorder.stats()
            self.recorder.close()
            self.process.bytes = stats.bytes
            count_records(self.process, stats)
            if stats.failure == NO_MEMORY:
                why = "the records in memory reached max_memory: raise it"
                self.not_collected("a part of the modules and operators", why)
            elif stats.failure:
                why = f"the disk refused more records: {posix.strerror(stats.failure)}"
                self.not_collected("the end of the run", why)
        self.process.state, self.process.end, self.process.ended_ns = "ended", end, self.recorder.now()

    def _at_exit(self) -> None:
        if self.forked and self.process.pid != posix.getpid():
            return  # a fork child that never recorded: it must not note an end in the files of its parent
        with self.guard("ending"), Late(self.recorder.delay_signals):
            self._close_all()

    def _close_all(self) -> None:
        main, home = self.main if self.main in self.recordings else None, self.home
        self._end()
        if home is not None and home.reachable:
            with self.guard("preparing the record of the exit status"):
                self.recorder.write_exit_status(paths.join(home.folder, layout.EXIT_STATUS))
        if self._dynamic is not None and not self.forked:
            self._dynamic.close()
        if main is not None and self.owner and not self.forked:
            process.after_children(self.guard("the analysis").around(partial(handover.finish, main, self.recorder)))

    def _end_child(self) -> None:
        with self.guard("ending"), Uncollected(), Late(self.recorder.delay_signals):
            self._end()

    def _end(self) -> None:
        """End all open recordings, and note how this process ended."""
        last = getattr(sys, "last_type", None)
        with self.guard("looking for workers"):
            self.process.daemons = process.daemons()
        # the first recording ends last, because the records of the others are in its directory
        for recording in reversed(self.recordings):
            self.stop(recording, f"exception: {last.__name__}" if last else "exit")
