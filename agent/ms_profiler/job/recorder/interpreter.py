"""Trace calls of Python functions in C, for the option `"with_stack": true`.

From CPython 3.12 on, the interpreter reports calls through `sys.monitoring`. Earlier versions report them through a
profile function. Both call the extension (`native/tracer.c`), so no Python code runs when a call is reported. If a
debugger, a coverage tool or another profiler runs, that tool and ms-profiler would record calls of each other. In this
case, ms-profiler samples stacks instead of tracing calls.
"""

import os
import sys
import threading
from threading import setprofile
from typing import TYPE_CHECKING, Any, Final

from ms_profiler import paths
from ms_profiler.job.guard import pass_on

if TYPE_CHECKING:
    from ms_profiler.options import Options

#: Identifiers of `sys.monitoring` that Python reserves for no kind of tool. ms-profiler uses one of these, so that the
#: identifier for profilers stays free for a profiler of the script.
_FREE: Final = (4, 3)
#: name of ms-profiler in `sys.monitoring`
_NAME: Final = "ms-profiler"
#: The cost of tracing a call is measured _TIMES times. Each measurement covers _CALLS calls together.
_CALLS: Final = 200
_TIMES: Final = 5
#: _LEAST_NS: smallest time that is assumed for tracing a call, ns. _WRITTEN: the measured time is multiplied by this
#: factor, to include the time of writing the record.
_LEAST_NS: Final = 50.0
_WRITTEN: Final = 1.3
#: folder of ms-profiler's own files; calls of functions in these files are not traced
_OWN: Final = paths.dirname(paths.dirname(paths.dirname(paths.abspath(__file__)))) + os.sep


def _paths(texts: "tuple[str, ...]") -> tuple[bytes, ...]:
    return tuple(os.fsencode(paths.expanduser(text)) for text in texts)


def other_tool() -> str:
    """Return the name of another tool that receives calls or lines in this process; empty if there is none."""
    for what, found in (("a profiler", sys.getprofile()), ("a debugger or coverage", sys.gettrace())):
        if found is not None and getattr(found, "__module__", "") != "ms_profiler._native":
            return f"{what} ({getattr(found, '__module__', None) or type(found).__module__})"
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is not None:
        for number in range(3):  # the identifiers for a debugger, for coverage and for a profiler
            name = monitoring.get_tool(number)
            if name is not None:
                return f"{name}"
    return ""


class Interpreter:
    """Start and stop the tracing of calls: switch the Python interpreter's reports of calls on and off.

    Args:
        native: the C extension, whose functions the interpreter calls.
    """

    def __init__(self, native: Any) -> None:
        self._native = native
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._number = -1
        self._events = 0
        self._left_out: tuple[Any, ...] | None = None
        self._call_ns = 0.0

    def begin(self, asked: "Options") -> str:
        """Start tracing calls as the options `asked` say; return why that is impossible, empty on success."""
        if tool := other_tool():
            return f"{tool} receives calls already"
        switch, disable = None, None
        if self._monitoring is not None:
            if not self.register(asked.stack_c_calls):
                return "sys.monitoring has no identifier left"
            switch, disable = self._native.shield(self.switch, pass_on), self._monitoring.DISABLE
        left_out = (_paths(asked.stack_include), (os.fsencode(_OWN), *_paths(asked.stack_exclude)))
        if self._monitoring is not None and self._left_out not in (None, left_out):
            self._monitoring.restart_events()
        self._left_out = left_out
        bare = self._timed()
        limits = (asked.stack_min_us, asked.stack_depth, asked.stack_c_calls)
        if not self._native.trace_calls(*limits, *left_out, switch, disable):
            self.release()
            return "this interpreter lacks functions that tracing needs"
        if self._monitoring is None:
            setprofile(self._native.profile_hook)
        self._call_ns = max(self._timed() - bare, _LEAST_NS) * _WRITTEN
        return ""

    def end(self) -> None:
        """Stop tracing calls."""
        self._native.trace_no_calls()
        if self._monitoring is not None:
            self.release()
            return
        if getattr(threading, "_profile_hook", None) is self._native.profile_hook:
            setprofile(None)
        if sys.getprofile() is self._native.profile_hook:
            sys.setprofile(None)

    def spent(self) -> float:
        """Return the time that the tracing of calls has taken so far, ns, computed from the number of calls."""
        return float(self._native.calls_seen() * self._call_ns)

    def beside(self) -> str:
        """Return the name of a tool that has begun to trace calls since `begin`; if none has, trace new threads, too.

        Before CPython 3.12, each thread needs a profile function of its own. Python sets this function only in threads
        that `threading` starts. So this method sets it in the other threads.
        """
        if tool := other_tool():
            return tool
        if self._monitoring is None:
            self._native.trace_new_threads(sys.getprofile() is None)
        return ""

    def _timed(self) -> float:
        """Return the time of a call that does nothing, ns: the smallest of five measurements, which take 0.2 ms."""
        content: dict[str, Any] = {}
        # the code gets a file name outside of this package, because calls of the package's functions are not traced
        exec(compile("def nothing(): pass", "<ms-profiler>", "exec"), content)
        nothing, now, times = content["nothing"], self._native.now, list[float]()
        try:
            self._native.scratch(True)  # these calls must not appear in the result
            for _ in range(_TIMES):
                start = now()
                for _ in range(_CALLS):
                    nothing()
                times.append((now() - start) / _CALLS)
        finally:
            self._native.scratch(False)
        return min(times)

    def register(self, c_calls: bool) -> bool:
        """Register the extension with `sys.monitoring`; return whether an identifier was free.

        Python reports calls only after `switch(True)`.

        Args:
            c_calls: whether calls of C functions from Python are reported, too.
        """
        monitoring, native = self._monitoring, self._native
        if self._number < 0:
            for number in _FREE:
                if (tool := monitoring.get_tool(number)) is None:
                    monitoring.use_tool_id(number, _NAME)
                if tool in (None, _NAME):  # ours: an exception of the job ended an earlier call before the next line
                    self._number = number
                    break
            else:
                return False
        of = monitoring.events
        calls = {
            of.PY_START: native.call_began,
            of.PY_RESUME: native.call_resumed,
            of.PY_THROW: native.call_thrown,
            of.PY_RETURN: native.call_returned,
            of.PY_YIELD: native.call_yielded,
            of.PY_UNWIND: native.call_unwound,
        }
        if c_calls:
            calls[of.CALL] = native.c_call_began
        self._events = sum(calls)
        if c_calls:  # sys.monitoring reports these two events together with CALL, so they are not in `_events`
            calls |= {of.C_RETURN: native.c_call_returned, of.C_RAISE: native.c_call_raised}
        for event, call in calls.items():
            monitoring.register_callback(self._number, event, call)
        return True

    def release(self) -> None:
        """Release the identifier of `sys.monitoring`, if there is one."""
        if self._number >= 0:
            self._monitoring.set_events(self._number, 0)
            number, self._number = self._number, -1
            self._monitoring.free_tool_id(number)

    def switch(self, on: bool) -> None:
        """Switch the reports of calls on or off."""
        if self._number >= 0:
            self._monitoring.set_events(self._number, self._events if on else 0)
