"""Raise an exception once in each place of ms-profiler in which Python may call a signal handler of the job.

Python calls signal handlers after the begin of a function, after calls, and when it jumps back in a loop. A trace
function raises the exception, so that a test reaches each of these places.
"""

import dis
import functools
import sys

#: first letters of the names of instructions after which Python calls signal handlers
CHECKING = ("CALL", "RESUME", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")


class Alarm(BaseException):
    """The exception of the job."""


def handler(code, at):
    """Return the exception handler of an instruction; None if it has none."""
    return next((entry.target for entry in dis._parse_exception_table(code) if entry.start <= at < entry.end), None)


@functools.cache
def is_checked(code, before, at):
    """Return whether Python may call a signal handler between two instructions.

    The handler's exception belongs to the first instruction, but that of a trace function to the second one. So the
    result is False if they have other exception handlers, as at the end of the block of a `try`.
    """
    name = dis.opname[code.co_code[before]]
    return name.startswith(CHECKING) and handler(code, before) == handler(code, at)


class Interruption:
    """Raise an exception in the first place of ms-profiler that is not in `tried`.

    Args:
        modules: the modules in which the places are.
        tried: the places of earlier exceptions: what the job does, code object and instruction; None: raise nothing.

    Attributes:
        raised: whether the exception was raised.
        where: the place of the exception.
    """

    def __init__(self, modules, tried):
        self._files = {module.__file__ for module in modules}
        self._tried, self.raised, self.where = tried, tried is None, ""
        self._what, self._before = "", {}

    def _trace(self, frame, event, _):
        code = frame.f_code
        if code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            before, self._before[frame] = self._before.get(frame), frame.f_lasti
            place = self._what, code, frame.f_lasti
            if before is not None and is_checked(code, before, frame.f_lasti) and place not in self._tried:
                self._tried.add(place)
                self.raised, self.where = True, f"{self._what}: {code.co_name}, line {frame.f_lineno}"
                raise Alarm
        return self._trace

    def during(self, what, call, *arguments):
        """Call a function; return whether the exception of this object ended it.

        Args:
            what: what the job does; each place is tried once for it.
            call: the function.
            arguments: its arguments.
        """
        self._what = what
        sys.settrace(None if self.raised else self._trace)
        try:
            call(*arguments)
        except Alarm:
            return True
        finally:
            sys.settrace(None)
            self._before.clear()
        return False
