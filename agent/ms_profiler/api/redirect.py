"""What stands in for MindSpore's own classes: a script that ran before with a warning must not fail now."""

from ms_profiler.api import profile as new
from ms_profiler.api import profiler as old


class _ForgivingProfile(new.profile):
    """`mindspore.profiler.profile`, on the session of this process."""

    _forgives = True


class _ForgivingProfiler(old.Profiler):
    """`mindspore.Profiler`, on the session of this process."""

    _forgives = True
