"""The numbers by which Ascend's files refer to groups of ranks."""

from typing import Final

_PRIMES: Final = (29, 131)


def number(group: str) -> str:
    """Return the number by which Ascend's files refer to a group. If `group` is already a number, it is unchanged."""
    return group if group.isdecimal() else hashed(group)


def hashed(name: str) -> str:
    """Return the number that Ascend's files use for a group with this name.

    The number has 64 bits. Each half is a polynomial over the characters, modulo 2^32, as in msprof-analyze 26.2.
    """
    high = low = 0
    for character in name:
        high = (high * _PRIMES[0] + ord(character)) % 2**32
        low = (low * _PRIMES[1] + ord(character)) % 2**32
    return str(high << 32 | low)
