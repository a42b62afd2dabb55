"""Record the counters of an NPU, and of its caches, memories and links, with CANN's aclprof.

aclprof is called only a few times in a run, to begin and to end, and returns no records. So this module calls aclprof
by ctypes, without the C extension. aclprof writes files into a folder `PROF_*` of the result directory. CANN's program
`msprof` reads them.

aclprof serves one user in a process, and returns an error code to a second user. It accepts settings only after a call
of aclprofInit. This call replaces the process's handler for SIGINT, and starts a thread that ends the process two
seconds after a Ctrl-C. A job that catches KeyboardInterrupt would never get this exception. So this module reads the
handler before every call of aclprof, and restores it afterwards. aclprofStart waits up to 30 s for the device.

A signal handler of the job may raise an exception between any two lines of Python code. If this happened between a call
of aclprof and the note of its result, aclprof would be in use for ever. So C functions (`map`, `dict.update`) read the
handler, make the call, restore the handler and note the result. Python calls no signal handler between them.
"""

import ctypes
import os
import posix
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

from ms_profiler import cann
from ms_profiler.job.devices import search
from ms_profiler.job.devices.aclprof_plan import Metrics, Plan, Request
from ms_profiler.job.recorder.tracing import Kinds, Outcome, TraceCounts

#: Pattern of the path of CANN's library AscendCL, which has functions that aclprof's library lacks. A job on an NPU has
#: loaded AscendCL.
BASE: Final = re.compile(r"/libascendcl\.so(\.\d+)*$")
REMEDY: Final = "source CANN's set_env.sh before the job"

_INTEGER, _BYTES, _SIZE, _POINTER = ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p
#: name of a function of aclprof -> type of its result, types of its arguments
_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "aclprofInit": (_INTEGER, (_BYTES, _SIZE)),
    "aclprofFinalize": (_INTEGER, ()),
    "aclprofSetConfig": (_INTEGER, (_INTEGER, _BYTES, _SIZE)),
    "aclprofCreateConfig": (
        _POINTER,
        (ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint32, _INTEGER, _POINTER, ctypes.c_uint64),
    ),
    "aclprofDestroyConfig": (_INTEGER, (_POINTER,)),
    "aclprofStart": (_INTEGER, (_POINTER,)),
    "aclprofStop": (_INTEGER, (_POINTER,)),
}
#: error code of aclprof -> meaning and remedy
_MEANINGS: Final = {
    100002: "it is in use in this process already; end the other profiler, or leave NPU out of activities",
    100042: "profiling runs already, by the command msprof, acl.json or an option of GE; end that, or leave NPU out "
    "of activities",
    148047: "a program of this process has subscribed to its own profiling; end that, or leave NPU out of activities",
    100010: "this NPU or this CANN does not take that value; leave the option out",
    100043: "profiling had not begun, or another tool ended it; make sure that nothing else in the job profiles",
    200007: "a part of CANN's profiler is missing; install the complete CANN toolkit",
    500005: "CANN had an internal error; its log, by default in ~/ascend/log, says why",
}
#: bytes of memory for a struct sigaction, which takes 152 with glibc on x86-64 and aarch64
_HANDLER_BYTES: Final = 512


def load(library: str) -> tuple[dict[str, Callable[..., Any]], str]:
    """Load aclprof's library; return its functions by name, and the reason if the library cannot be loaded, else "".

    Args:
        library: path of the library, or a name that the system's loader finds.
    """
    handles = []
    for path in [library, *search.mapped(BASE)]:
        try:
            handles.append(ctypes.CDLL(path, mode=posix.RTLD_LAZY | posix.RTLD_LOCAL))
        except OSError as reason:
            if path == library:
                return {}, str(reason)
    functions: dict[str, Callable[..., Any]] = {}
    for name, (result, arguments) in _FUNCTIONS.items():
        function = next((getattr(handle, name) for handle in handles if hasattr(handle, name)), None)
        if function is None:
            return {}, f"{library} has no {name}; {REMEDY}"
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return functions, ""


def device() -> int | None:
    """Return the number of the NPU that this thread uses; None if it uses none or CANN is not loaded."""
    for path in search.mapped(BASE):
        try:
            ask = ctypes.CDLL(path, mode=posix.RTLD_LAZY | posix.RTLD_NOLOAD).aclrtGetDevice
        except (OSError, AttributeError):
            continue
        number = ctypes.c_int32()
        if ask(ctypes.byref(number)) == 0:
            return number.value
    return None


@dataclass(frozen=True)
class Order:
    """The data to record, and the folder for them.

    Attributes:
        plan: the data to record.
        folder: folder that receives the data.
        device: number of the NPU to record.
    """

    plan: Plan
    folder: str
    device: int


class AclprofTracing:
    """Record an NPU into a folder with aclprof.

    This class has the methods of `job/recorder/tracing.py`, but returns no records.

    Args:
        plan: called when aclprof is attached; returns the data to record. If `plan` is None, nothing is recorded: this
            object only tests whether the library can be loaded.
        refused: called with the options that aclprof refuses, and the reason.
        used: returns whether any thread of the job is known to use an NPU.
    """

    def __init__(
        self,
        plan: Callable[[], Order] | None,
        refused: Callable[[Sequence[str], str], object],
        used: Callable[[], bool] = lambda: False,
    ) -> None:
        self._plan = plan
        self._used = used
        self._refused = refused
        self._pid = 0  # the process that attached aclprof
        self._functions: dict[str, Callable[..., Any]] = {}
        #: name of a function of aclprof -> result of its last call; None after the call that reverses it
        self._results: dict[str, Any] = {}

    def ready(self) -> bool:
        """Return whether the job already uses an NPU; the check loads no library."""
        return device() is not None or (bool(search.mapped(BASE)) and self._used())

    def attach(self, library: str) -> tuple[Outcome, str]:
        """Initialise aclprof in this process and request the data to record; return the outcome, and its reason.

        Args:
            library: path of the library, or a name that the system's loader finds.
        """
        functions, why = load(library)
        if not functions:
            return Outcome.MISSING, why
        if self._plan is None:
            return Outcome.DONE, ""
        self.detach()  # if an exception of the job ended an earlier call of this method
        order = self._plan()
        self._functions, self._results, self._pid = functions, {}, posix.getpid()
        path = os.fsencode(order.folder)
        code = self._call("aclprofInit", path, len(path))
        if code:
            return Outcome.FAILED, _meaning("aclprofInit", code)
        for request in order.plan.requests:
            self._set(request)
        if not self._create(order.plan, order.device):
            self.detach()
            what = f"{order.plan.data:#x} of device {order.device}"
            return Outcome.FAILED, f"aclprofCreateConfig refuses {what}; ask for less"
        return Outcome.DONE, ""

    def record(self, kinds: Kinds) -> tuple[Outcome, str]:
        """Start or stop recording; return the outcome, and the reason of a failure.

        If this object only tests the interface, nothing is recorded. Then the second value is the name of a program
        that the analysis needs and this machine lacks.

        Args:
            kinds: `NOTHING` to stop, any other value to start. `attach` has already requested the kinds of data.
        """
        if self._plan is None:
            return Outcome.DONE, "" if cann.msprof() else cann.TOOL
        if not self._owner or bool(kinds) is (self._results.get("aclprofStart") == 0):
            return Outcome.DONE, ""
        name, reverses = ("aclprofStart", "") if kinds else ("aclprofStop", "aclprofStart")
        code = self._call(name, self._results["aclprofCreateConfig"], reverses=reverses)
        return (Outcome.FAILED, _meaning(name, code)) if code else (Outcome.DONE, "")

    def flush(self) -> Outcome:
        """Do nothing: aclprof completes its files only when it is detached."""
        return Outcome.DONE

    def detach(self) -> Outcome:
        """Stop recording, so that another profiler of this process may use aclprof."""
        if not self._owner:
            return Outcome.IDLE
        self.record(Kinds.NOTHING)
        if config := self._results.get("aclprofCreateConfig"):
            self._call("aclprofDestroyConfig", config, reverses="aclprofCreateConfig")
        self._call("aclprofFinalize", reverses="aclprofInit")
        return Outcome.DONE

    def counts(self) -> TraceCounts:
        """Return zeros, because aclprof returns no records."""
        return TraceCounts(*[0] * len(TraceCounts.__dataclass_fields__))

    @property
    def _owner(self) -> bool:
        """Return whether this process itself initialised aclprof; in a fork child of it, the library does not work."""
        return self._pid == posix.getpid() and self._results.get("aclprofInit") == 0

    def _set(self, request: Request) -> None:
        value = request.value.encode()
        code = self._call("aclprofSetConfig", int(request.setting), value, len(value))
        if code:
            self._refused(request.options, _meaning(f"aclprofSetConfig {int(request.setting)} {request.value}", code))

    def _create(self, plan: Plan, number: int) -> bool:
        """Make aclprof's configuration for NPU `number`; return False if aclprof refuses it."""
        devices = (ctypes.c_uint32 * 1)(number)
        config = self._call("aclprofCreateConfig", devices, 1, int(plan.metrics), None, int(plan.data))
        if not config and plan.metrics == Metrics.MemoryAccess:
            # not every NPU has the metrics MemoryAccess, but every NPU has PipeUtilization
            other = Metrics.PipeUtilization
            config = self._call("aclprofCreateConfig", devices, 1, int(other), None, int(plan.data))
            if config:
                self._refused(["aic_metrics"], f"this NPU has no MemoryAccess; {other.name} is recorded in its place")
        return bool(config)

    def _call(self, name: str, *arguments: Any, reverses: str = "") -> Any:
        """Call a function of aclprof, restore the process's handler for SIGINT, and return the function's result.

        This method asks the system for the handler. `signal.getsignal` would not see that a library has changed it.

        Args:
            name: name of the function.
            arguments: its arguments.
            reverses: name of the function of aclprof whose call this call reverses.
        """
        handler = ctypes.create_string_buffer(_HANDLER_BYTES)
        sigaction = partial(ctypes.CDLL(None).sigaction, int(signal.SIGINT))
        read, restore = partial(sigaction, None, handler), partial(sigaction, handler, None)
        calls = read, partial(self._functions[name], *arguments), restore
        self._results.update(zip(("", name, "", reverses), chain(map(partial.__call__, calls), [None]), strict=True))
        return self._results[name]


def _meaning(call: str, code: int) -> str:
    """Return a line with an error code that a function of aclprof returned, its meaning, and the remedy."""
    return f"{call} answered {code}{': ' if code in _MEANINGS else ''}{_MEANINGS.get(code, '')}"
