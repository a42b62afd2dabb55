"""The findings of an examination."""

from dataclasses import asdict, dataclass
from enum import Enum


class State(str, Enum):
    """Importance of a finding.

    Attributes:
        CAUSE: nothing is recorded, for this reason.
        NOTE: less is recorded or shown than one may expect, or this is unknown.
        OK: this part is as it has to be.
    """

    CAUSE = "cause"
    NOTE = "note"
    OK = "ok"


@dataclass(frozen=True)
class Finding:
    """One sentence about one thing, and its remedy.

    Attributes:
        about: the thing, one or two words: variable, rank, interpreter, activation, script, result, ...
        state: the importance of the finding.
        text: the sentence.
        remedy: the action for the user; empty where there is nothing to do.
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
    """Return a finding that something is all right."""
    return Finding(about, State.OK, text)
