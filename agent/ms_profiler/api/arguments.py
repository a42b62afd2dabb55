"""Check arguments of a script's calls; a wrong value causes a warning, and the default is used."""

from typing import Any

from ms_profiler.api.forgiving import warn
from ms_profiler.option_types import shown


def function(name: str, value: Any, forgives: bool) -> Any:
    """Return a function that the script has passed; None, with a warning, if the value is no function.

    Args:
        name: name of the parameter.
        value: the argument; None if the script passed none.
        forgives: as for `forgiving.warn`.
    """
    if value is None or callable(value):
        return value
    warn(f"{name} is {shown(value)}, but must be a function; leaving it out", forgives)
    return None


def truth(name: str, value: Any, default: bool) -> bool:
    """Return a truth value that the script has passed; the default, with a warning, if the value is none.

    Args:
        name: name of the parameter.
        value: the argument.
        default: the value of the parameter if the script passes none.
    """
    if isinstance(value, bool):
        return value
    warn(f"{name} is {shown(value)}, but must be True or False; using {default}")
    return default
