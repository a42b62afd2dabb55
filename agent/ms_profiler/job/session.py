"""One run of collection in this process: what is on, where it goes, and how it ends.

Opened when a framework has been imported, closed by atexit. A process that is killed needs neither: what was recorded
is in the store, and the run's record says how far it came.
"""

import atexit
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from ms_profiler import log, options
from ms_profiler.job import bootstrap, handover, process, recorder
from ms_profiler.job.frameworks import PLUGINS, base
from ms_profiler.job.schedule import Schedule
from ms_profiler.job.steps import WHY, Steps
from ms_profiler.store import layout, run_info
from ms_profiler.store.format import Category, Kind, StepSource

#: Set to 1, an error of ours ends the job with a traceback: for tests only.
RAISE = "MS_PROFILER_RAISE"
#: Steps between two looks at what recording costs.
BUDGET_INTERVAL = 16
#: A number of steps that no job reaches.
NEVER = 1 << 62
#: Part of the free space that a run may take, whatever `max_disk` says.
FREE_SHARE = 10

_lock = threading.Lock()
_current: "Session | None" = None
_asked = False


def current() -> "Session | None":
    """Return the session of this process, if there is one."""
    return _current


def framework_imported(name: str, module: Any, start_ns: int, end_ns: int) -> None:
    """Open the session if this process is to be profiled, and hook the framework.

    Args:
        name: the framework's top-level module.
        module: that module.
        start_ns: when its import began, CLOCK_MONOTONIC_RAW.
        end_ns: when its import ended.
    """
    global _current, _asked
    with _lock:
        first, _asked = not _asked, True
        if first:
            _current = _open(end_ns)
        if _current is not None:
            _current.add_framework(name, module, start_ns, end_ns)


def _open(since_ns: int) -> "Session | None":
    parsed = options.parse(os.environ.get(process.VARIABLE))
    identity = process.identity(os.environ)
    parent = process.parent(os.environ)
    if parent is None and identity.rank == 0:
        for message in parsed.messages:
            log.line(message)
    if parsed.options is None or not process.selected(parsed.options.ranks, identity.rank, identity.world_size):
        return None
    session = Session(parsed.options, list(parsed.messages), identity)
    if not session.open(parent, since_ns):
        return None
    return session


class Guard:
    """Note an error of ours and go on; the job's own errors never pass through here.

    A class, because entering and leaving what contextlib makes takes 2.5 us, five times as much.
    """

    __slots__ = ("_session", "_what")

    def __init__(self, session: "Session", what: str) -> None:
        self._session = session
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, reason: BaseException | None, _: Any) -> bool:
        if not isinstance(reason, Exception):
            return False
        self._session.failed(self._what, reason)
        return True


class Session:
    """Collect one run.

    Args:
        settings: the resolved options.
        messages: the lines already printed about them.
        identity: rank and device of this process.
    """

    def __init__(self, settings: options.Options, messages: list[str], identity: process.Identity) -> None:
        self.options = settings
        self.identity = identity
        self.result = ""
        self.recorder, reason = recorder.create()
        self.info = run_info.RunInfo(
            product_version=process.product_version(),
            pid=os.getpid(),
            host=socket.gethostname(),
            boot_id=process.boot_id(),
            process_start=process.process_start(),
            options=settings.as_dict(),
            messages=messages,
            rank=identity.rank,
            local_rank=identity.local_rank,
            world_size=identity.world_size,
            device_id=identity.device_id,
            job=identity.job,
            python=".".join(map(str, sys.version_info[:3])),
        )
        self.process = run_info.ProcessInfo(
            pid=os.getpid(),
            parent=os.getppid(),
            process_start=self.info.process_start,
            name="job",
            recorder=self.recorder.kind,
            recorder_reason=reason,
        )
        self.steps = Steps(self.recorder, None, self._steps_decided, self._stepped)
        self.owner = True  # of the result directory; a child process only adds its own folder
        self.forked = False
        self._plugins: list[base.Plugin] = []
        #: bytes on disk from which fine-grained records, and from which all but steps, are refused
        self.limits = (0, 0)
        self._budget_mark = (0, 0)
        self._budget_due = BUDGET_INTERVAL
        self._fine = settings.overhead_budget > 0  # fine-grained records are on, and may have to go
        self._at_step: list[Callable[[int], tuple[int, bool]]] = []
        self._at_end: list[Callable[[], None]] = []

    # -- beginning

    def open(self, parent: "process.Parent | None", since_ns: int) -> bool:
        """Make the directory, start the recorder and say so; return whether it came to that."""
        if parent is not None:
            self.result, self.owner = parent.directory, False
            self.process.role = "spawn"
        elif not self._make_result():
            return False
        folder = layout.process_dir(self.result, os.getpid())
        try:
            os.makedirs(folder, layout.DIRECTORY_MODE, exist_ok=True)
            self.limits = fine, everything = self._limits()
            self.recorder.open(folder, limit_fine=fine, limit_all=everything)
        except OSError as reason:
            log.line(f"cannot record into {folder}: {reason}. This run is not profiled.")
            return False
        if Schedule.from_option(self.options.schedule) is not None:
            self.steps = Steps(
                self.recorder, Schedule.from_option(self.options.schedule), self._steps_decided, self._stepped
            )
        self.info.started_ns = self.recorder.now()
        self.info.started_wall = process.wall_time()
        self._measure_cost()
        self.info.cost["start_ns"] = self.recorder.now() - since_ns
        self._save()
        process.announce(os.environ, self.result, self.identity.rank)
        if self.owner:
            self.say(f"recording to {self.result} ; should the job be killed: ms-profiler analyse {self.result}")
        atexit.register(self._at_exit)
        os.register_at_fork(after_in_child=self._after_fork)
        return True

    def _make_result(self) -> bool:
        path, message = process.choose_output(self.options.output_path, bootstrap.start_directory)
        if message:
            log.line(message)
            self.info.messages.append(message)
        if path is None:
            return False
        name = layout.result_name(self.info.host, os.getpid(), process.wall_time())
        result = os.path.join(path, name)
        try:
            for folder in (result, layout.framework_dir(result), os.path.join(result, layout.LOGS)):
                os.mkdir(folder, layout.DIRECTORY_MODE)
        except OSError as reason:
            log.line(f"cannot make {result}: {reason}. This run is not profiled.")
            return False
        self.result = result
        return True

    def _limits(self) -> tuple[int, int]:
        """Return the bytes from which fine-grained records, and from which all but steps, are refused."""
        free = os.statvfs(self.result)
        most = min(self.options.max_disk, free.f_bavail * free.f_frsize // FREE_SHARE)
        return most // 2, most

    def _measure_cost(self) -> None:
        """Measure what one hook costs here and now: calls of a wrapped function that does nothing, paused.

        200 calls take 0.3 ms. What recording adds to that is measured by the recorder on memory of its own.
        """

        def nothing() -> None:
            pass

        hooked = base.wrap(nothing, base.span(self, "", Category.PROFILER))
        now = self.recorder.now
        self.recorder.pause(True)
        times = []
        for _ in range(5):
            start = now()
            for _ in range(40):
                hooked()
            middle = now()
            for _ in range(40):
                nothing()
            times.append(((middle - start) - (now() - middle)) / 40)
        self.recorder.pause(False)
        idle = sorted(times)[len(times) // 2]
        self.info.cost.update(idle_ns=idle, span_ns=idle + self.recorder.span_cost())
        if self.steps.schedule is not None:
            self.recorder.pause(not self.steps.schedule.records(0))

    def add_framework(self, name: str, module: Any, start_ns: int, end_ns: int) -> None:
        """Hook a framework that has just been imported; a second call for it, after a reload, does nothing."""
        if any(plugin.framework == name for plugin in self._plugins):
            return
        begun = self.recorder.now()
        label = self.recorder.intern(f"import {name}")
        self.recorder.record(Kind.SPAN, Category.IMPORT, 0, label, start_ns, end_ns, 0)
        plugin = PLUGINS[name]()
        plugin.apply(self)
        self._plugins.append(plugin)
        self.info.hooks.update(plugin.state)
        self.info.framework = {"name": name, "version": str(getattr(module, "__version__", ""))}
        for option, why in options.unavailable_on_cpu(self.options):
            self.not_collected(option, why)
        if plugin.yielded:
            self.not_collected("device records", f"{plugin.yielded}; its result is beside this one")
        self.info.cost["start_ns"] = self.info.cost.get("start_ns", 0) + self.recorder.now() - begun
        self._save()

    # -- while it runs

    @property
    def speaks(self) -> bool:
        """Return whether this process prints lines at its start and end."""
        return self.identity.rank == 0 and not self.options.quiet

    def say(self, message: str) -> None:
        """Print a line that only rank 0 prints and `quiet` keeps for the record."""
        if self.speaks:
            log.line(message)
        elif self.options.quiet:
            self.info.messages.append(message)

    def not_collected(self, what: str, why: str) -> None:
        """Note something that the result will not hold, and why."""
        entry = {"what": what, "why": why}
        if entry not in self.info.not_collected:
            self.info.not_collected.append(entry)

    def failed(self, what: str, reason: BaseException) -> None:
        """Note an error of ours: one line, our own data, never the job."""
        if os.environ.get(RAISE) == "1":
            raise reason
        message = f"{what} failed ({type(reason).__name__}: {reason}); the job goes on without it"
        if message not in self.info.messages:
            self.info.messages.append(message)
            log.line(message)

    def guard(self, what: str) -> "Guard":
        """Return a context that lets no error of ours out of the block."""
        return Guard(self, what)

    def at_step(self, call: Callable[[int], tuple[int, bool]]) -> None:
        """Have a source called between steps, on the stepping thread, with the number of steps so far.

        It returns the number of steps from which on it is to be called again (it may be called before), and whether it
        did something that took time: no step is to pay for that.
        """
        self._at_step.append(call)

    def at_end(self, call: Callable[[], None]) -> None:
        """Have a source called when this process ends, before the recorder is closed."""
        self._at_end.append(call)

    def _steps_decided(self, source: StepSource) -> None:
        self.info.steps = {"source": source.name.lower(), "why": WHY[source]}
        self._save()

    def _stepped(self, count: int) -> bool:
        took_time, due = False, NEVER
        for call in self._at_step:
            with self.guard("a step boundary"):
                wanted, took = call(count)
                due = min(due, wanted)
                took_time |= took
        if self._fine:
            if count >= self._budget_due:
                self._budget_due = count + BUDGET_INTERVAL
                self._check_budget(count)
            due = min(due, self._budget_due)
        self.steps.due = due
        return took_time

    def _check_budget(self, count: int) -> None:
        """Stop fine-grained records when what was recorded since the last look cost more than the budget allows."""
        now, records = self.recorder.now(), self.recorder.stats().records
        then, before = self._budget_mark
        self._budget_mark = (now, records)
        if then and (records - before) * self.info.cost["span_ns"] > self.options.overhead_budget * (now - then):
            self.recorder.fine(False)
            self._fine = False
            self.not_collected(
                f"module and operator spans from step {count} on",
                f"recording them took more than overhead_budget, {self.options.overhead_budget:.0%} of the time; "
                "0 turns this limit off",
            )
            self._save()

    def _save(self) -> None:
        """Write the records of this run and process."""
        with self.guard("writing the run's record"):
            if self.owner and not self.forked:
                run_info.write(layout.run_info_path(self.result), self.info)
            folder = layout.process_dir(self.result, os.getpid())
            run_info.write(os.path.join(folder, layout.PROCESS_INFO), self.process)

    # -- fork

    def _after_fork(self) -> None:
        """Forget the parent's recording; this child opens its own when it first has something to record."""
        self.forked = True
        base.forked.append(self)

    def reopen(self) -> None:
        """Record from here on into a folder of this fork child's own."""
        base.forked.clear()
        with self.guard("recording in a fork child"):
            folder = layout.process_dir(self.result, os.getpid())
            os.makedirs(folder, layout.DIRECTORY_MODE, exist_ok=True)
            fine, everything = self._limits()
            self.recorder.open(folder, limit_fine=fine, limit_all=everything)
            self.steps = Steps(self.recorder)
            self.process = run_info.ProcessInfo(
                pid=os.getpid(),
                parent=os.getppid(),
                process_start=process.process_start(),
                role="fork",
                name=process.name(),
                recorder=self.recorder.kind,
                recorder_reason=self.process.recorder_reason,
            )
            self._save()
            multiprocessing = sys.modules.get("multiprocessing.util")
            if multiprocessing is not None:
                # children of multiprocessing leave by os._exit after their finalizers, without atexit up to 3.12
                multiprocessing.Finalize(None, self._end, exitpriority=-100)

    # -- ending

    def _at_exit(self) -> None:
        if self.forked and self.process.pid != os.getpid():
            return  # a plain fork child that never recorded: the parent's record is not its to end
        self._end()
        if self.owner and not self.forked:
            with self.guard("the analysis"):
                handover.finish(self)

    def _end(self) -> None:
        """Close the recording and say how this process ended."""
        if self.process.state == "ended":
            return
        for call in self._at_end if not self.forked else ():
            with self.guard("ending a source"):
                call()
        with self.guard("closing the recording"):
            self.steps.close()
            for plugin in self._plugins:
                self.info.framework.update(plugin.describe())
            stats = self.recorder.stats()
            self.recorder.close()
            self.process.records = stats.records
            self.process.dropped = stats.dropped
            self.process.dropped_limit = stats.dropped_limit
            self.process.bytes = stats.bytes
            self.process.threads = stats.threads
            if stats.failure:
                self.not_collected("the end of the run", f"the disk refused more records: {os.strerror(stats.failure)}")
        last = getattr(sys, "last_type", None)
        self.process.end = f"exception: {last.__name__}" if last else "exit"
        self.process.ended_ns = self.recorder.now()
        self.process.state = "ended"
        self._save()
