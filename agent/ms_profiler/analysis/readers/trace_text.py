"""Read the JSON text of a trace in the Chrome format, block by block, so that a file may be larger than memory.

The text is a list of events, or an object with such a list under `traceEvents`. The file may be packed by gzip. Texts
in events are cut after `TEXT` characters.
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

#: key of the list of events, in a file that holds an object
EVENTS: Final = "traceEvents"
#: number of bytes that are read, or unpacked, at once
_PIECE: Final = 1 << 20
#: largest number of characters of an event; a longer one counts as damage
_LONGEST: Final = 1 << 26
#: texts are cut after this many characters; names of C++ functions may have some ten thousand characters
TEXT: Final = 1 << 16
#: number of damaged places in a file after which reading ends
_MOST_DAMAGE: Final = 1000
#: first bytes of a file that gzip has packed
_PACKED: Final = b"\x1f\x8b"
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_COMMA: Final = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
_NEXT: Final = re.compile(r"[\[,]\s*(?=\{)")
#: separator of two events
_BETWEEN: Final = re.compile(r"\}([ \t\r\n]*,[ \t\r\n]*)\Z")
#: largest number of attempts to find the begin of a block's last event: any "{" near the end of the block may be it
_TRIED: Final = 32
#: escapes that may be half of a surrogate pair
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
#: A syntax error this near to the end of the text read so far (in characters) may not be an error of the file: the text
#: may go on in the part of the file that was not read yet.
_CUT: Final = 64


class _DamageError(Exception):
    """The text is not valid JSON from the current place on."""


class TraceText:
    """Read the events of a trace.

    Args:
        path: the path of the file.
        counts: receives the number of unreadable parts.

    Attributes:
        head: all keys of the file's object except `traceEvents`; complete after all events are read.
    """

    def __init__(self, path: str, counts: ReadCounts) -> None:
        self.head: dict[str, Any] = {}
        self._name = os.path.basename(path)
        self._counts = counts
        self._pieces = _pieces(path, counts)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        # fractions stay text, because a double would round times
        self._json = json.JSONDecoder(parse_float=str)
        self._text = ""
        self._place = 0
        self._ended = False
        self._listed = False
        self._halves = False

    def lists(self) -> Iterator[list[Any]]:
        """Yield the events in long lists. If the text is damaged, yield the complete events.

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
        """Yield the events up to the first place that is not valid JSON, and raise `_DamageError` there."""
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
        """Decode the events in the text read so far, except the last event, which may be incomplete.

        All of them are decoded by one call, which is fast. If decoding fails, return an empty list. It fails, for
        example, if an object inside an event looks like the next event.
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
                    values = short(values) if last - place > len(values) * TEXT else values
                except (ValueError, RecursionError):
                    break
                self._place = last
                return list(values)
        return []

    def _run(self) -> Iterator[Any]:
        """Yield the complete values of a list in the text read so far, and consume each value with its comma."""
        self._peek()
        text, place, until = self._text, self._place, len(self._text) - _CUT
        decode, comma = self._json.raw_decode, _COMMA.match
        while place < until:
            try:
                value, end = decode(text, place)
                value = short(value) if end - place > TEXT else value
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
                # the separator of two events may be cut at the end of the text read so far
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
            # an object without "ph" is not an event, but a part of a damaged event
            if isinstance(event, dict) and "ph" in event:
                yield event

    def _peek(self) -> str:
        """Return the next character that is not blank, but do not consume it; empty at the end of the file."""
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
        """Return the next JSON value, and consume it. If it is damaged, consume nothing, and raise `_DamageError`."""
        self._peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._place)
                value = short(value) if end - self._place > TEXT else value
            except RecursionError as error:
                raise _DamageError from error
            except ValueError as error:
                # for an integer of more than 4,300 digits, Python raises an error without a place
                if not isinstance(error, json.JSONDecodeError):
                    raise _DamageError from error
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _CUT
                if not cut or len(self._text) - self._place > _LONGEST or not self._more():
                    raise _DamageError from error
                continue
            # a number at the end of the text read so far may be cut, also before a ".", "e" or "e+" behind the number
            if end + 2 < len(self._text) or not self._more():
                self._place = end
                return value

    def _more(self) -> bool:
        """Drop the text that was decoded, append more of the file, and return whether the file had more."""
        if self._ended:
            return False
        parts = [self._text[self._place :]]
        # append at least as much as is left: if the text grew piece by piece, a long value would be decoded again after
        # each piece
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


def short(value: Any) -> Any:
    """Return a JSON value with every text cut after `TEXT` characters, because tables copy texts often.

    Args:
        value: text, number, list or object.
    """
    return unicode.changed(value, lambda text: text[:TEXT])


def _pieces(path: str, counts: ReadCounts) -> Iterator[bytes]:
    """Yield the content of a file in pieces, unpacked if gzip has packed it. Stop where packed data are damaged."""
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
            # after the end of a stream, `flush` would put the bytes of the next stream into `unused_data` twice
            if not unpacking.eof:
                yield unpacking.flush()
            if not unpacking.eof:
                counts.damaged_files.append((name, "packed data end early"))
                return
            # a gzip file may consist of several streams
            content = unpacking.unused_data
            content += stream.read(len(_PACKED)) if len(content) < len(_PACKED) else b""
