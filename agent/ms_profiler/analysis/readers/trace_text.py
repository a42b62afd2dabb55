"""Read the text of a trace in the Chrome format piece by piece: its events, and the other keys of its object.

A list of events, or an object that holds one under `traceEvents`, packed by gzip or not. A file may be larger than
memory: only the events of one block are in memory.
"""

import codecs
import json
import os
import re
import zlib
from collections.abc import Iterator
from typing import Any, Final

from ms_profiler.store import unicode
from ms_profiler.store.reader import ReadCounts

#: where the events are in a file that holds an object
EVENTS: Final = "traceEvents"
#: bytes read, or unpacked, at once
_PIECE: Final = 1 << 20
#: longest event, in characters; a longer text is no event
_LONGEST: Final = 1 << 26
#: most damaged places in a file, before reading ends
_MOST_DAMAGE: Final = 1000
#: first bytes of a file that gzip has packed
_PACKED: Final = b"\x1f\x8b"
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_COMMA: Final = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
_NEXT: Final = re.compile(r"[\[,]\s*(?=\{)")
#: separator of two events
_BETWEEN: Final = re.compile(r"\}([ \t\r\n]*,[ \t\r\n]*)\Z")
#: places from the end of a block at which the last event may begin
_TRIED: Final = 32
#: escapes that may be half of a surrogate pair
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
#: distance to the end of a text within which a fault may only mean that the text continues
_CUT: Final = 64


class _DamageError(Exception):
    """The text is no valid JSON from this place on."""


class TraceText:
    """Read the events of a trace.

    Args:
        path: the path of the file.
        counts: receives the number of unreadable parts.

    Attributes:
        head: the other keys of a file that holds an object; complete when all events are read.
    """

    def __init__(self, path: str, counts: ReadCounts) -> None:
        self.head: dict[str, Any] = {}
        self._name = os.path.basename(path)
        self._counts = counts
        self._pieces = _pieces(path, counts)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        # fractions stay text: a double would round times
        self._json = json.JSONDecoder(parse_float=str)
        self._text = ""
        self._place = 0
        self._ended = False
        self._listed = False
        self._halves = False

    def lists(self) -> Iterator[list[Any]]:
        """Yield every event, many at a time; if the text is damaged, the complete events.

        Raises:
            OSError: the file cannot be opened.
        """
        found = 0
        try:
            for events in self._whole():
                found += sum(isinstance(event, dict) and "ph" in event for event in events)
                yield unicode.whole(events) if self._halves else events
        except _DamageError as damage:
            if damage.args:
                self._counts.damaged_files.append((self._name, str(damage)))
                return
            for event in self._salvaged():
                found += 1
                yield [unicode.whole(event) if self._halves else event]
            self._counts.damaged_files.append((self._name, f"no whole JSON; {found} events could be read"))

    def _whole(self) -> Iterator[list[Any]]:
        """Yield the events for as long as the text is JSON."""
        opened = self._sign("[{")
        if opened == "[":
            yield from self._list()
        elif self._peek() == "}":
            self._sign("}")
        else:
            yield from self._object()
        if self._peek():
            raise _DamageError
        if not self._listed:
            raise _DamageError("holds no list of events")

    def _object(self) -> Iterator[list[Any]]:
        while True:
            key = self._value()
            self._sign(":")
            if key == EVENTS and self._peek() == "[":
                self._sign("[")
                yield from self._list()
            elif key == EVENTS:
                raise _DamageError("holds no list of events")
            else:
                self.head[unicode.whole(key)] = unicode.whole(self._value())
            if self._sign(",}") == "}":
                return

    def _list(self) -> Iterator[list[Any]]:
        self._listed = True
        if self._peek() == "]":
            self._sign("]")
            return
        while True:
            yield self._block() or list(self._run())
            yield [self._value()]
            if self._sign(",]") == "]":
                return

    def _block(self) -> list[Any]:
        """Return the objects up to the last that begins in the text read so far, decoded at once.

        An empty list if that fails: the end of an object inside a list may look like the end of an event.
        """
        self._peek()
        text, place = self._text, self._place
        last = len(text)
        for _ in range(_TRIED):
            last = text.rfind("{", place + 1, last)
            if last < 0:
                break
            between = _BETWEEN.search(text, max(place, last - _CUT), last)
            if between is not None:
                try:
                    values = self._json.decode(f"[{text[place : between.start(1)]}]")
                except (ValueError, RecursionError):
                    break
                self._place = last
                return list(values)
        return []

    def _run(self) -> Iterator[Any]:
        """Yield the complete values of a list in the text read so far, each with the comma after it."""
        self._peek()
        text, place, until = self._text, self._place, len(self._text) - _CUT
        decode, comma = self._json.raw_decode, _COMMA.match
        while place < until:
            try:
                value, end = decode(text, place)
            except (ValueError, RecursionError):
                return
            behind = comma(text, end)
            if behind is None:
                return
            self._place = place = behind.end()
            yield value

    def _salvaged(self) -> Iterator[Any]:
        """Yield the complete events in the rest of a damaged text."""
        damage = 0
        while damage < _MOST_DAMAGE:
            following = _NEXT.search(self._text, self._place)
            if following is None:
                # the separator may continue after the end of the text read so far
                self._place = max(self._place, len(self._text) - _CUT)
                if not self._more():
                    return
                continue
            self._place = following.end()
            try:
                event = self._value()
            except _DamageError:
                damage += 1
                continue
            # complete objects inside of a damaged event are no events
            if isinstance(event, dict) and "ph" in event:
                yield event

    def _peek(self) -> str:
        """Return the next character that is not blank, without consuming it; empty at the end."""
        while True:
            blank = _BLANK.match(self._text, self._place)
            self._place = blank.end() if blank else self._place
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._more():
                return ""

    def _sign(self, possible: str) -> str:
        sign = self._peek()
        if not sign or sign not in possible:
            raise _DamageError
        self._place += 1
        return sign

    def _value(self) -> Any:
        """Return the next value; before a damaged value the place does not move."""
        self._peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._place)
            except RecursionError as error:
                raise _DamageError from error
            except ValueError as error:
                # Python refuses integers of more than 4,300 digits, by an error without a place
                if not isinstance(error, json.JSONDecodeError):
                    raise _DamageError from error
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _CUT
                if not cut or len(self._text) - self._place > _LONGEST or not self._more():
                    raise _DamageError from error
                continue
            # a number may continue after the end of the text read so far, or after ".", "e", "e+" at its end
            if end + 2 < len(self._text) or not self._more():
                self._place = end
                return value

    def _more(self) -> bool:
        """Read the next block, and drop the used text."""
        if self._ended:
            return False
        parts = [self._text[self._place :]]
        # at least twice as much: a value over many pieces would otherwise be decoded as many times
        wanted = len(parts[0]) + 1
        while wanted > 0 and not self._ended:
            piece = next(self._pieces, None)
            self._ended = piece is None
            parts.append(self._decode(piece or b"", final=self._ended))
            wanted -= len(parts[-1])
        self._text = "".join(parts)
        self._halves = self._halves or _HALF.search(self._text) is not None
        self._place = 0
        return True


def _pieces(path: str, counts: ReadCounts) -> Iterator[bytes]:
    """Yield the content of a file, as far as it can be unpacked where it is packed."""
    with open(path, "rb") as stream:
        content = stream.read(len(_PACKED)) + stream.read(_PIECE)
        if not content.startswith(_PACKED):
            while content:
                yield content
                content = stream.read(_PIECE)
            return
        name = os.path.basename(path)
        while content.startswith(_PACKED):
            unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
            try:
                while content and not unpacking.eof:
                    yield unpacking.decompress(content, _PIECE)
                    content = unpacking.unconsumed_tail or (b"" if unpacking.eof else stream.read(_PIECE))
            except zlib.error as error:
                counts.damaged_files.append((name, f"packed data are damaged ({error})"))
                return
            # at its end, flush would put the bytes of the next file twice into unused_data
            if not unpacking.eof:
                yield unpacking.flush()
            if not unpacking.eof:
                counts.damaged_files.append((name, "packed data end early"))
                return
            # a gzip file may consist of several streams
            content = unpacking.unused_data
            content += stream.read(len(_PACKED)) if len(content) < len(_PACKED) else b""
