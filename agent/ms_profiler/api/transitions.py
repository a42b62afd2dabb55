"""What a profiler does when its schedule goes from one action to the next, as in MindSpore's public documents."""

from typing import Final

from ms_profiler.api.schedule import ProfilerAction

NONE, WARM_UP = ProfilerAction.NONE, ProfilerAction.WARM_UP
RECORD, SAVE = ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE

#: methods of `Capture` to call, in this order, each without the underscore at its begin: "make" stands for `_make`
Effects = tuple[str, ...]

MAKE: Final[Effects] = ("make",)
BEGIN: Final[Effects] = ("make", "begin")
DISCARD: Final[Effects] = ("discard",)
FINISH: Final[Effects] = ("end", "ready")

#: (action until now, action from now on; None when the profiler stops) -> methods to call
EFFECTS: Final[dict[tuple[ProfilerAction, ProfilerAction | None], Effects]] = {
    (NONE, WARM_UP): MAKE,
    (NONE, RECORD): BEGIN,
    (NONE, SAVE): BEGIN,
    (WARM_UP, NONE): DISCARD,
    (WARM_UP, RECORD): ("begin",),
    (WARM_UP, SAVE): ("begin",),
    (RECORD, NONE): ("end",),
    (RECORD, WARM_UP): ("end", *MAKE),
    (SAVE, NONE): FINISH,
    (SAVE, WARM_UP): (*FINISH, *MAKE),
    (SAVE, RECORD): (*FINISH, *BEGIN),
    (SAVE, SAVE): (*FINISH, *BEGIN),
    (WARM_UP, None): DISCARD,
    (RECORD, None): FINISH,
    (SAVE, None): FINISH,
}

#: The warning if the profiler stops before the first call of step(), whatever its action.
NO_STEP: Final = (
    "the profiler has a schedule, but step() was never called: the schedule is still at its first step. "
    "Call step() at the end of each step"
)
#: (action until now, action from now on) -> warning to print. Some of these pairs occur only if the script has written
#: its own function as schedule.
WARNINGS: Final[dict[tuple[ProfilerAction, ProfilerAction | None], str]] = {
    (WARM_UP, NONE): "the schedule warms up and then records nothing",
    (RECORD, NONE): "the schedule stops recording without RECORD_AND_SAVE: on_trace_ready is not called for the cycle",
    (
        RECORD,
        WARM_UP,
    ): "the schedule stops recording without RECORD_AND_SAVE: on_trace_ready is not called for the cycle",
    (WARM_UP, None): "stopped while warming up: there is no result",
    (RECORD, None): "stopped before the end of a cycle: the result is not complete",
    (SAVE, None): "stopped during the last step of a cycle: that step may not be complete",
}
