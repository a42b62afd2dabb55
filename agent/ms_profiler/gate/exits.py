"""Exit codes of the gate; scripts rely on them, so they never change."""

from typing import Final

PASS: Final = 0
REGRESSION: Final = 1
USAGE: Final = 2  #: the exit code of every wrong call of `ms-profiler`, as `ms_profiler.errors` defines it
NOT_COMPARABLE: Final = 3
INCONCLUSIVE: Final = 4  #: for an inconclusive verdict with --strict; without --strict, the exit code is PASS
FAILED: Final = 5  #: an error in ms-profiler itself

MEANINGS: Final = {
    PASS: "pass, or inconclusive without --strict",
    REGRESSION: "a regression",
    USAGE: "an argument is wrong, or a file that it names cannot be used",
    NOT_COMPARABLE: "the runs are not comparable, or a part of one is missing",
    INCONCLUSIVE: "inconclusive, with --strict",
    FAILED: "ms-profiler failed, and there is no verdict",
}
