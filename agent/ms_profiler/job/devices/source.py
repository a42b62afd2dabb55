"""Record the work of a device by a vendor's tracing interface, while the session records.

The interface is attached only after this process has used the device. If it were attached earlier, a fork child would
inherit the attached interface, and that child may be the only process that uses the device. PyTorch reports the first
use. With other frameworks, checks between steps at growing intervals find the first use.

Under a schedule, recording begins one step before the first step to record, and ends one step after the last one. The
analysis then selects kernels by the time of their launch. So each step has all of its kernels, even those that run long
after the step has ended on the host.

A signal handler of the job may raise an exception between any two lines of this module. So the module notes first that
a call may change the state of the interface, and notes the new state only after everything that belongs to it. If an
exception ends this work early, the next call repeats it. The interface accepts repeated calls.
"""

import posix
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ms_profiler import log
from ms_profiler.job.recorder.tracing import Kinds, Outcome
from ms_profiler.job.sources import NEVER
from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.devices.interface import Interface
    from ms_profiler.job.host import Host


class DeviceSource:
    """Trace devices by one vendor's interface.

    Args:
        host: the part of the session that records.
        interface: the vendor's interface.
        turn: returns whether this object may record its device. If several interfaces serve a device, only one may.

    Attributes:
        interface: the vendor's interface.
        attached: whether the interface is attached, or may be, because an exception of the job ended a call of it.
        absent: whether the interface's library was not found.
    """

    def __init__(
        self, host: "Host", interface: "Interface", turn: Callable[["DeviceSource"], bool] = lambda _: True
    ) -> None:
        self._host = host
        self.interface = interface
        self._turn = turn
        self._tracing = interface.tracing(host.recorder, host)
        self._pid = posix.getpid()
        self.attached = False
        self.absent = False
        self._was_attached = False
        self._ready = False  # whether the interface is attached, and everything that belongs to this is done
        self._recording: bool | None = False  # None: unknown, because an exception may have ended the last switch
        self._given_up = False
        self._profiled = False  # whether the script has used a profiler of its own
        self._waits = 0  # number of steps after which to check next whether the device is in use
        self._away = False  # whether the script's own profiler runs or is being prepared

    @property
    def waits(self) -> bool:
        """Return whether the interface may still be attached later."""
        return not (self._ready or self._given_up or self._away or self._tracing is None)

    @property
    def _inherited(self) -> bool:
        """Return whether this is a fork child. Its copy of the interface belongs to the parent and must not be used."""
        return self._pid != posix.getpid()

    def start(self) -> None:
        """Begin to record the device if the job uses it already, and write into the results which interface does so."""
        self._waits = 1
        if self._wanted():
            self.look()
            self._ask()
        if self._ready:
            self._note()

    def look(self) -> None:
        """Attach the interface if the job already uses the device, and record if the schedule records this step."""
        if self._inherited:
            self._say_of_child()
            return
        if self._ready:
            self._follow()
            return
        if not self.waits or not self._wanted():
            return
        if why := self.interface.left_to(self._host):
            self._host.not_collected(self.interface.what, why)
            self._given_up = True
            return
        if self._tracing is not None and self._tracing.ready():
            self._attach()
            self._follow()

    def stepped(self, count: int) -> tuple[int, bool]:
        """Start or stop recording between two steps; check after steps 1, 2, 4, 8, ... whether the job uses the device.

        Args:
            count: the number of steps so far.

        Returns:
            The number of steps after which to call this function next, and whether this call took noticeable time.
        """
        if self._ready:
            self._follow()
            return (NEVER if self._host.steps.schedule is None else count + 1), False
        if self._given_up or self._tracing is None or not self._wanted():
            return NEVER, False
        if count < self._waits:
            return self._waits, False
        self._waits = max(2 * count, 1)
        self.look()
        if not self._ready:
            return self._waits, False
        self._host.not_collected(
            f"{self.interface.what} before step {count}",
            f"{self.interface.platform} was first found in use there, by a check between two steps",
        )
        return count + 1, True

    def stop(self) -> None:
        """Write all finished device records when a recording ends; detach the interface when the last one ends."""
        if self._inherited:
            return
        if not self.attached:
            self._end_unused()
        elif len(self._host.recordings) > 1:
            self._tracing_flush()
        else:
            self._detach()
        if self._was_attached:
            self._note_missing()

    def release(self) -> None:
        """Detach the interface, because the script starts a profiler of its own, which needs it."""
        if self._inherited:
            return
        self._away = self._profiled = True
        if self.attached:
            self._detach()
            self._host.not_collected(
                f"{self.interface.what} while the script's own profiler runs",
                f"{self.interface.name} serves one profiler at a time",
            )

    def resume(self) -> None:
        """Attach the interface again where possible, after the script's own profiler has stopped."""
        self._away = False
        if self._host.recordings and not self._inherited:
            self.look()

    @contextmanager
    def _own_span(self, what: str) -> Iterator[None]:
        """Record the body of the `with` statement as work of ms-profiler, not of the job."""
        recorder = self._host.recorder
        begun = recorder.now()
        yield
        recorder.record(Kind.SPAN, Category.PROFILER, 0, recorder.intern(what), begun, recorder.now(), 0)

    def _say_of_child(self) -> None:
        """Note that this fork child uses the device, if its parent never attached the interface."""
        used = self._tracing is not None and not (self._was_attached or self._given_up) and self._tracing.ready()
        if used and self._wanted():
            if self._host.process.pid != posix.getpid():
                self._host.reopen()  # the note below must not go into the files of the parent
            why = f"a fork child does not record its {self.interface.activity}; a child that is spawned does"
            self._host.not_collected(self.interface.what, why)
            self._given_up = True

    def _wanted(self) -> bool:
        """Return whether this object may record the device, and any recording requests it.

        A recording whose option `activities` is not set requests all devices.
        """
        return self._turn(self) and any(
            self.interface.activity in recording.options.activities or "activities" not in recording.options.given
            for recording in self._host.recordings
        )

    def _attach(self) -> None:
        assert self._tracing is not None
        name = self.interface.name
        for library in self.interface.libraries():
            self.attached = True
            with self._own_span(f"attach {name}"):
                outcome, why = self._tracing.attach(library)
            self.attached = outcome is Outcome.DONE
            if outcome is Outcome.DONE:
                self._note()
                if not self._was_attached:
                    self._explain()
                self._ready = self._was_attached = True
            elif outcome is Outcome.OWNED:
                self._give_up(f"{name} belongs to {self.interface.owner(self._profiled)}")
            elif outcome is Outcome.FAILED:
                self._give_up(f"{name} cannot be used: {why}")
            elif outcome is Outcome.HANGS:
                self._hangs()
            elif outcome is Outcome.MISSING:
                continue  # try the next library; if none can be loaded, another interface may record the device
            return
        self.absent = True
        self._give_up(f"there is no {name}; {self.interface.package}")

    def _explain(self) -> None:
        """Print which interface records the device, and why, if there was a choice.

        The choice matters to the user, because the interfaces differ in cost.
        """
        home = self._host.home
        if home is not None and (why := home.info.device_sources[self.interface.activity]["why"]):
            home.say(f"the {self.interface.activity} is recorded by {self.interface.name}: {why}")

    def _note(self) -> None:
        """Write into `run_info.json` of each open recording which interface records the device, and why."""
        settings = [recording.options for recording in self._host.recordings]
        taken = {"interface": self.interface.name, "why": self.interface.reason(settings)}
        home = self._host.home
        for recording in self._host.recordings:
            recording.info.device_sources[self.interface.activity] = taken
            recording.collected(self.interface.covers)
            if self.interface.files and home is not None and recording is not home:
                recording.not_collected(self.interface.what, f"{self.interface.name} writes them into {home.result}")

    def _follow(self) -> None:
        """Start or stop recording the device, as the schedule requires for the current step."""
        wanted = self._wanted() and self._near()
        if not self._ready or wanted is self._recording:
            return
        assert self._tracing is not None
        self._recording = None
        with self._own_span(f"switch {self.interface.name}"):
            outcome, why = self._tracing.record(
                self.interface.kinds(self._host.recordings) if wanted else Kinds.NOTHING
            )
        if outcome is Outcome.HANGS:
            self._hangs()
        elif outcome is not Outcome.DONE:
            self._detach()
            for recording in self._host.recordings:
                recording.info.device_sources.pop(self.interface.activity, None)
            self._give_up(f"{self.interface.name} does not record: {why}")
        elif why:
            self._host.not_collected(f"some records of the {self.interface.activity}", self.interface.left_out(why))
        self._recording = wanted

    def _near(self) -> bool:
        """Return whether the schedule records the current step, the step before it or the step after it."""
        steps = self._host.steps
        if steps.recording or steps.schedule is None:
            return True
        return any(steps.schedule.records(steps.number + near) for near in (-1, 1))

    def _tracing_flush(self) -> None:
        assert self._tracing is not None
        with self._own_span(f"flush {self.interface.name}"):
            outcome = self._tracing.flush()
        if outcome is Outcome.HANGS:
            self._hangs()

    def _detach(self) -> None:
        assert self._tracing is not None
        self._ready, self._recording = False, None
        with self._own_span(f"detach {self.interface.name}"):
            outcome = self._tracing.detach()
        self.attached = self._recording = False
        if outcome is Outcome.HANGS:
            self._hangs()

    def _hangs(self) -> None:
        self.attached = self._ready = False
        self._give_up(f"{self.interface.name} did not answer for ten seconds; ms-profiler does not call it again")

    def _give_up(self, why: str) -> None:
        """Record nothing by this interface from now on; print the reason, and write it into `run_info.json`."""
        self._host.not_collected(self.interface.what, why)
        self._given_up = True
        self._say(f"{self.interface.what} are not recorded: {why}")

    def _end_unused(self) -> None:
        if self._asked() and not (self._given_up or self._profiled or self._was_attached):
            why = f"the job did not use {self.interface.platform} in this process"
            self._host.not_collected(self.interface.what, why)

    def _asked(self) -> bool:
        """Return whether this object may record the device, and the option `activities` names the device."""
        return self._turn(self) and any(
            self.interface.activity in recording.options.activities and "activities" in recording.options.given
            for recording in self._host.recordings
        )

    def _ask(self) -> None:
        """Print and note why the device cannot be recorded, if the option `activities` names it."""
        if not self._asked() or self.attached or self._given_up:
            return
        if self._tracing is None:
            self._give_up(f"the extension does not load: {self._host.process.recorder_reason}")
        elif missing := self.interface.missing():
            self._give_up(f"{missing}, or leave {self.interface.activity} out of activities")

    def _say(self, line: str) -> None:
        if self._host.identity.rank == 0:
            log.line(line)
        for recording in self._host.recordings:
            recording.note(line)

    def _note_missing(self) -> None:
        """Note how many records of the device are missing, and the uncertainty of the device's times."""
        assert self._tracing is not None
        counts, name, activity = self._tracing.counts(), self.interface.name, self.interface.activity
        missing = {
            f"{name} dropped them": counts.dropped,
            "they came faster than they could be read": counts.lost,
            "max_memory or max_disk was reached, or the disk was full": counts.refused,
            "they have no end: they still ran, or the device had failed": counts.unfinished,
            "they were of an unknown kind": counts.unknown,
        }
        for why, number in missing.items():
            if number:
                self._host.not_collected(f"{number} records of the {activity}", why)
        if counts.unreadable:
            self._host.not_collected(f"the rest of {counts.unreadable} buffers of {name}", "they cannot be read")
        if counts.stopped:
            why = f"{name} held more than 48 MB of buffers and returned none, so recording was ended"
            self._host.not_collected(f"later {self.interface.what}", why)
        if counts.uncertainty_ns:
            why = f"{self.interface.clock} {counts.uncertainty_ns} ns"
            self._host.not_collected(f"exact times of the {activity}", why)
