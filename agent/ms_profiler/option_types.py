"""Kinds of option values. A kind describes the allowed values, checks a JSON value, and returns the resolved value."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

#: Largest length of a list, text or range in an option. On Linux, an environment variable holds at most 128 KiB.
LONGEST = 4096
#: Largest number that an option may have if it counts steps or operators: more than any job has.
LARGEST = 10**12
#: Largest number of characters of a bad value that a message shows.
SHOWN = 60


def shown(value: Any, quote: bool = True) -> str:
    """Return the text of a value as one short line of printable ASCII, for messages."""
    try:
        text = json.dumps(value, default=_type) if quote else value.encode("ascii", "backslashreplace").decode("ascii")
    except RecursionError:
        text = f"a deeply nested {type(value).__name__}"
    except (TypeError, ValueError):  # of a script: a dictionary with odd keys, or a list that contains itself
        text = _type(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _type(value: object) -> str:
    """Describe an object of a script by its type, because its conversion to a text would run code of the script."""
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


class Kind(Protocol):
    """The interface of a kind of option values, for example numbers or names."""

    type: str  #: one word or two for the table of options
    allowed: str  #: the end of the message "... must be ..."

    def resolve(self, value: Any) -> Any:
        """Return the resolved value.

        Raises:
            ValueError: the value is not allowed.
        """


class Bool:
    """`true` or `false`, also as strings, as in MindSpore's public profiler documents."""

    type = "bool"
    allowed = "true or false"

    def resolve(self, value: Any) -> bool:
        """Return the boolean."""
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        raise ValueError


class BoolOr:
    """`true`, `false`, or one certain word.

    Args:
        word: the word that is allowed.
    """

    type = "bool or str"

    def __init__(self, word: str) -> None:
        self._word = word
        self.allowed = f'true, false or "{word}"'

    def resolve(self, value: Any) -> bool | str:
        """Return the boolean, or the word."""
        if isinstance(value, str) and value.strip().lower() == self._word:
            return self._word
        return Bool().resolve(value)


class Number:
    """A number in a range; NaN and infinities are not allowed."""

    type = "number"

    def __init__(self, least: float, most: float, what: str) -> None:
        self.least, self.most = least, most
        self.allowed = f"{what} from {least:g} to {most:g}"

    def resolve(self, value: Any) -> float:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not self.least <= value <= self.most:
            raise ValueError
        return float(value)


class Count:
    """A whole number that is not smaller than `least`."""

    type = "int"

    def __init__(self, least: int, what: str) -> None:
        self.least = least
        self.allowed = f"{what}, {least} or more"

    def resolve(self, value: Any) -> int:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= LARGEST:
            raise ValueError
        return value


class Size:
    """A size in bytes: a number, or a text with a unit. KB is 10^3 and KiB is 2^10 bytes, as in IEC 80000-13."""

    type = "size"
    _UNITS = ("", "K", "M", "G", "T")

    def __init__(self, least: int) -> None:
        self.least = least
        self.allowed = f'bytes or text like "5GB" or "512MiB", {self.text(least)} or more'

    def resolve(self, value: Any) -> int:
        """Return the number of bytes."""
        if isinstance(value, str):
            value = self._from_text(value)
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value < 2**63:
            raise ValueError
        return value

    def text(self, value: int) -> str:
        """Return a number of bytes as text, with the largest decimal unit that gives a whole number."""
        power = max(power for power in range(len(self._UNITS)) if value % 1000**power == 0)
        return f"{value // 1000**power}{self._UNITS[power]}B"

    def _from_text(self, text: str) -> int:
        text = text.strip().upper()
        number = text.rstrip("BIKMGT ")
        unit = text[len(number) :].strip()
        base = 1024 if unit.endswith("IB") else 1000
        power = self._UNITS.index(unit.removesuffix("IB" if base == 1024 else "B"))  # ValueError: no such unit
        amount = float(number) * base**power
        if not math.isfinite(amount):
            raise ValueError
        return int(amount)


class Text:
    """A text. It must not contain the character NUL, because the text may be a path.

    Args:
        what: what the text means, for messages.
        absent: whether null is allowed, too.
    """

    type = "str"

    def __init__(self, what: str, absent: bool = False) -> None:
        self.allowed = f"{what} or null" if absent else what
        self._absent = absent

    def resolve(self, value: Any) -> str | None:
        """Return the text; None for null."""
        if value is None and self._absent:
            return None
        if not isinstance(value, str) or not value.strip() or "\0" in value or len(value) > LONGEST:
            raise ValueError
        return value


class Choice:
    """One of a few names, in upper or lower case, or another value that stands for one of them.

    Args:
        names: the names, as in the resolved options.
        spellings: other accepted value -> the name for which it stands.
    """

    type = "str"

    def __init__(self, *names: str, spellings: Mapping[Any, str] | None = None) -> None:
        self.names = names
        self._known: dict[Any, str] = {name.lower(): name for name in names}
        for spelling, name in (spellings or {}).items():
            self._known[spelling.lower() if isinstance(spelling, str) else spelling] = name
        self.allowed = "one of " + ", ".join(names)

    def resolve(self, value: Any) -> str:
        """Return the name."""
        if isinstance(value, str):
            value = value.strip().lower()
        elif isinstance(value, bool) or not isinstance(value, (int, type(None))):
            raise ValueError
        if value not in self._known:
            raise ValueError
        return self._known[value]


class Choices:
    """A list of names, or one name. One unknown name makes the whole list invalid, as in MindSpore's profiler."""

    type = "list"

    def __init__(self, *names: str, empty: bool = False) -> None:
        self._one = Choice(*names)
        self._empty = empty
        self.allowed = "one or a list of " + ", ".join(names)

    def resolve(self, value: Any) -> tuple[str, ...]:
        """Return the names in the order given, each name once."""
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or (not value and not self._empty) or len(value) > LONGEST:
            raise ValueError
        return tuple(dict.fromkeys(self._one.resolve(item) for item in value))


class Texts:
    """A list of texts."""

    type = "list"
    allowed = "a list of names"

    def resolve(self, value: Any) -> tuple[str, ...]:
        """Return the texts in the order given, each text once."""
        if not isinstance(value, list) or len(value) > LONGEST:
            raise ValueError
        if not all(isinstance(item, str) and item for item in value):
            raise ValueError
        return tuple(dict.fromkeys(value))


class StepPlan:
    """The steps to record: five numbers with the names and meanings of `mindspore.profiler.schedule`."""

    type = "object"
    allowed = "an object of wait, warmup, active, repeat and skip_first: steps, 0 or more, active 1 or more"
    _DEFAULTS = {"skip_first": 0, "wait": 0, "warmup": 0, "active": 1, "repeat": 0}  # noqa: RUF012 - never changed

    def resolve(self, value: Any) -> dict[str, int] | None:
        """Return all five numbers of the schedule by name, or None for no schedule."""
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ValueError
        for name, number in value.items():
            if name not in self._DEFAULTS:
                raise ValueError
            Count(1 if name == "active" else 0, "steps").resolve(number)
        return {name: value.get(name, default) for name, default in self._DEFAULTS.items()}


class Ranks:
    """The ranks to record: all, a sample, or ranges of numbers."""

    type = "str or list"
    allowed = '"all", a list like [0, 8], ranges like "0-7,64", or "sample:8" for that many spread evenly'

    def resolve(self, value: Any) -> str:
        """Return the ranks as text: "all", "sample:N" or ranges."""
        if isinstance(value, int) and not isinstance(value, bool):
            value = [value]
        if isinstance(value, list):
            if not value or len(value) > LONGEST:
                raise ValueError
            if not all(isinstance(item, (int, str)) and not isinstance(item, bool) for item in value):
                raise ValueError
            value = ",".join(map(str, value))
        if not isinstance(value, str):
            raise ValueError
        text = value.strip().lower()
        if text == "all":
            return text
        if text.startswith("sample:"):
            return f"sample:{Count(1, 'ranks').resolve(_whole(text[7:]))}"
        return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in rank_ranges(text))


def rank_ranges(text: str) -> Sequence[tuple[int, int]]:
    """Return the ranges in a text like "0-7,64" as pairs of their first and last rank.

    Raises:
        ValueError: the text is not a list of ranges.
    """
    ranges = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        first = _whole(low)
        last = _whole(high) if dash else first
        if last < first:
            raise ValueError
        ranges.append((first, last))
    return ranges


def _whole(text: str) -> int:
    """Parse a number of at most 9 ASCII digits; `int` alone would also accept "1_0", "+1" and non-ASCII digits."""
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ValueError
    return int(text)


#: Number -> name of a group of AI Core counters. CANN, MS_PROFILER_OPTIONS and MindSpore's old interface use these
#: numbers. In the file of the dynamic profiler, 0, 1, 4 and 5 have other meanings.
METRIC_NUMBERS = {
    -1: "None",
    0: "ArithmeticUtilization",
    1: "PipeUtilization",
    2: "Memory",
    3: "MemoryL0",
    4: "ResourceConflictRatio",
    5: "MemoryUB",
    6: "L2Cache",
}
METRICS = Choice(
    "None",
    "ArithmeticUtilization",
    "PipeUtilization",
    "Memory",
    "MemoryL0",
    "ResourceConflictRatio",
    "MemoryUB",
    "L2Cache",
    "MemoryAccess",
    spellings={"AiCoreNone": "None", None: "None", **METRIC_NUMBERS},
)
LEVELS = Choice(
    "LevelNone",
    "Level0",
    "Level1",
    "Level2",
    spellings={-1: "LevelNone", 0: "Level0", 1: "Level1", 2: "Level2"},
)
