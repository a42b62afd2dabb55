"""Write events of a timeline as elements of a JSON list, one on each line."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS, Part, Texts

_END: Final = ",\n"


@dataclass(frozen=True)
class Lines:
    """Events as JSON. A comma and a line break follow each event.

    Attributes:
        count: the number of events.
        parts: constant texts and columns of values; put together in this order, they are the text of each event.
    """

    count: int
    parts: list[Part]


def write(events: Iterable[Lines], last: dict[str, Any] | None, stream: BinaryIO, *, pretty: bool) -> None:
    """Write events.

    Args:
        events: the events, many in one `Lines`.
        last: the last event of the file, which gets no comma; None if the caller writes further events later.
        stream: the stream to write to.
        pretty: whether to format the events for people.
    """
    for piece in events:
        if pretty:
            stream.write(_pretty(COLUMNS.rows(piece.count, piece.parts)))
        else:
            COLUMNS.write_rows(stream, piece.count, piece.parts)
    if last is not None:
        text = text_of(last)
        stream.write((_indented(text) if pretty else text).encode() + b"\n")


def lines(count: int, *parts: Part) -> Lines:
    """Return events that are put together from `parts`.

    Args:
        count: the number of events.
        parts: constant texts and columns of values that form each event, without the comma at its end.
    """
    return Lines(count, [*parts, _END])


def texts(events: Iterable[dict[str, Any]]) -> Lines:
    """Return a few events as one text."""
    return Lines(1, ["".join(text_of(event) + _END for event in events)])


def text_of(event: Any) -> str:
    """Return an event as JSON without spaces."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def quoted(texts: pl.Series) -> Texts:
    """Return each text as a JSON string."""
    return Texts(None if text is None else text_of(text) for text in texts)


def _pretty(piece: bytes) -> bytes:
    return "".join(_indented(line.removesuffix(",")) + _END for line in piece.decode().splitlines()).encode()


def _indented(event: str) -> str:
    return json.dumps(json.loads(event), ensure_ascii=False, indent=4)
