"""Effects of the change from one action to the next: the table of MindSpore's public profiler documents."""

from typing import Final

from ms_profiler.api.schedule import ProfilerAction

NONE, WARM_UP = ProfilerAction.NONE, ProfilerAction.WARM_UP
RECORD, SAVE = ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE

#: methods of `Capture`, in order
Deeds = tuple[str, ...]

MAKE: Final[Deeds] = ("make",)
BEGIN: Final[Deeds] = ("make", "begin")
DISCARD: Final[Deeds] = ("discard",)
KEEP: Final[Deeds] = ("end", "ready")

#: (action until now, action from now on; None at the end) -> effects
DEEDS: Final[dict[tuple[ProfilerAction, ProfilerAction | None], Deeds]] = {
    (NONE, WARM_UP): MAKE,
    (NONE, RECORD): BEGIN,
    (NONE, SAVE): BEGIN,
    (WARM_UP, NONE): DISCARD,
    (WARM_UP, RECORD): ("begin",),
    (WARM_UP, SAVE): ("begin",),
    (RECORD, NONE): ("end",),
    (RECORD, WARM_UP): ("end", *MAKE),
    (SAVE, NONE): KEEP,
    (SAVE, WARM_UP): (*KEEP, *MAKE),
    (SAVE, RECORD): (*KEEP, *BEGIN),
    (SAVE, SAVE): (*KEEP, *BEGIN),
    (WARM_UP, None): DISCARD,
    (RECORD, None): KEEP,
    (SAVE, None): KEEP,
}

#: the same pairs -> a warning; some occur only with a schedule function of the caller
WARNINGS: Final[dict[tuple[ProfilerAction, ProfilerAction | None], str]] = {
    (WARM_UP, NONE): "the schedule warms up and then records nothing",
    (RECORD, NONE): "the schedule stops recording without RECORD_AND_SAVE: on_trace_ready is not called for the cycle",
    (
        RECORD,
        WARM_UP,
    ): "the schedule stops recording without RECORD_AND_SAVE: on_trace_ready is not called for the cycle",
    (WARM_UP, None): "stopped while warming up: there is nothing to keep",
    (RECORD, None): "stopped before the end of a cycle: the result is not complete",
    (SAVE, None): "stopped during the last step of a cycle: that step may not be complete",
}
