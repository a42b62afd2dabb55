"""A finding of `ms-profiler doctor`: a sentence about the job, its importance, and a remedy."""

from dataclasses import asdict, dataclass
from enum import Enum


class State(str, Enum):
    """Importance of a finding.

    Attributes:
        CAUSE: the reason why nothing is recorded.
        NOTE: a reason why less is recorded or shown than users may expect, or something that doctor cannot find out.
        OK: this part works.
    """

    CAUSE = "cause"
    NOTE = "note"
    OK = "ok"


@dataclass(frozen=True)
class Finding:
    """A finding: one sentence about one subject, and the remedy.

    Attributes:
        about: the subject in one or two words: variable, rank, interpreter, activation, script, result, ...
        state: the importance of the finding.
        text: the sentence.
        remedy: advice for the user; empty if there is nothing to do.
    """

    about: str
    state: State
    text: str
    remedy: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the finding for JSON."""
        return {**asdict(self), "state": self.state.value}


def cause(about: str, text: str, remedy: str) -> Finding:
    """Return a finding that explains why nothing is recorded."""
    return Finding(about, State.CAUSE, text, remedy)


def note(about: str, text: str, remedy: str = "") -> Finding:
    """Return a finding that explains why less is recorded."""
    return Finding(about, State.NOTE, text, remedy)


def ok(about: str, text: str) -> Finding:
    """Return a finding about a part that works."""
    return Finding(about, State.OK, text)
