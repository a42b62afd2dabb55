"""Exit codes of the gate; scripts rely on them, so they never change."""

from typing import Final

PASS: Final = 0
REGRESSION: Final = 1
USAGE: Final = 2  #: also the code of every error of the command line, see `ms_profiler.errors`
NOT_COMPARABLE: Final = 3
INCONCLUSIVE: Final = 4  #: with --strict; 0 without

MEANINGS: Final = {
    PASS: "pass, or inconclusive without --strict",
    REGRESSION: "a regression",
    USAGE: "the command cannot be done as it was written",
    NOT_COMPARABLE: "the runs are not comparable, or a part of one is missing",
    INCONCLUSIVE: "inconclusive, with --strict",
}
