"""Parse JSON from small files beside the segments of a process, such as structures of networks, and tapes."""

import json
from typing import Any, Final

import orjson

from ms_profiler.store import unicode

#: errors that reading a damaged file may raise
DAMAGE: Final = (OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RecursionError)


def parsed(content: bytes) -> Any:
    """Parse JSON. A lone half of a surrogate pair becomes "?"; names that are not UTF-8 contain such halves.

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
