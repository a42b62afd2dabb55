"""Parse the small JSON files of a process, such as structures of networks, and lists of autograd's nodes."""

import json
from typing import Any, Final

import orjson

from ms_profiler.store import unicode

#: errors that reading a damaged file may raise
DAMAGE: Final = (OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RecursionError)


def parsed(content: bytes) -> Any:
    """Parse JSON. Half of a surrogate pair becomes "?": a name that is not valid UTF-8 may contain such a half.

    Args:
        content: the JSON.

    Raises:
        ValueError: the content is not JSON.
    """
    try:
        return orjson.loads(content)
    except ValueError as error:
        if "surrogate" not in str(error):  # Python's own parser takes ten times as long
            raise
    return unicode.whole(json.loads(content))
