"""Encode fields of Protocol Buffers as bytes (https://protobuf.dev/programming-guides/encoding/)."""

import struct
from typing import Final

_VARINT: Final = 0
_EIGHT_BYTES: Final = 1
_LENGTH: Final = 2


def varint(value: int) -> bytes:
    """Encode a whole number with seven bits a byte. A negative number becomes its two's complement of 64 bits.

    Args:
        value: the number, from -2^63 to 2^64 - 1.
    """
    value %= 2**64
    found = bytearray()
    while value >= 0x80:
        found.append(value % 0x80 | 0x80)
        value //= 0x80
    found.append(value)
    return bytes(found)


def integer(field: int, value: int) -> bytes:
    """Return a field that holds a whole number, an enumeration or a Boolean."""
    return varint(field << 3 | _VARINT) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    """Return a field that holds a whole number in eight bytes."""
    return varint(field << 3 | _EIGHT_BYTES) + struct.pack("<Q", value)


def double(field: int, value: float) -> bytes:
    """Return a field that holds a double."""
    return varint(field << 3 | _EIGHT_BYTES) + struct.pack("<d", value)


def message(field: int, *parts: bytes) -> bytes:
    """Return a field that holds a message. `parts` are the encoded fields of the message."""
    content = b"".join(parts)
    return varint(field << 3 | _LENGTH) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """Return a field that holds a text."""
    return message(field, value.encode())
