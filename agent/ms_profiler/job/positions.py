"""Choose where stretches end and where their bursts are, so that all ranks of a job sample the same steps.

A rank that waits for another rank says little in a step that the other rank did not sample. The ranks need not talk to
each other for this choice. For each k, the run is cut into blocks of 2**k steps. Each block has one burst: the burst of
one of its two halves. A hash of the seed and of the block says of which half. So bursts of a rank with long blocks are
bursts of a rank with short blocks, too. Within a block, each place of a burst has the same probability.

This is Owen's scrambling of the van der Corput sequence: A. B. Owen, Randomly permuted (t,m,s)-nets and
(t,s)-sequences, Monte Carlo and Quasi-Monte Carlo Methods in Scientific Computing, 1995.
"""

_MASK = (1 << 64) - 1
#: What a hash decides: the half of a block that has its burst, the same for the unsampled steps of an inverted burst,
#: and whether a pair of blocks is joined. With one hash for the first two, a rank that samples nearly all steps would
#: leave out the very steps that the other ranks sample.
_HALF, _INVERSE, _JOINED = range(3)


def power(number: int) -> int:
    """Return the largest power of two up to a positive number; stretches and bursts have such a number of steps."""
    return 1 << (number.bit_length() - 1)


class Positions:
    """Choose stretches of steps, and the place of the burst in each of them.

    Args:
        seed: number that all ranks of a job have in common.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def stretch(self, count: int, length: int, most: int, burst: int, inverse: bool) -> tuple[int, int]:
        """Return after how many steps the next burst begins, and after how many the stretch ends.

        Args:
            count: the number of steps so far: the stretch begins here.
            length: desired mean length of stretches, in steps; at least 2 * `burst`.
            most: largest length of later stretches, in steps; at least 2 * `burst`.
            burst: number of steps of a burst, a power of two.
            inverse: whether the steps of the burst are those that are not sampled.
        """
        size = self._size(count, length, most)
        end = (count // size + 1) * size
        begin = self._burst(end - size, size, burst, inverse)
        if begin < count:  # the stretch begins within a block, after its burst
            end += size
            begin = self._burst(end - size, size, burst, inverse)
        return begin, end

    def _size(self, count: int, length: int, most: int) -> int:
        """Return the size of the block: a power of two, chosen so that there is one burst in `length` steps on average.

        Two blocks of `size` steps are joined with the probability 1 - p. They have 1 + p bursts on average, which must
        be 2 * size / length.
        """
        size = power(min(length, most))
        if 2 * size > most:
            return size
        number = self._hash(_JOINED, 2 * size, count // (2 * size))
        return size if number * length < (2 * size - length) << 64 else 2 * size

    def _burst(self, first: int, size: int, burst: int, inverse: bool) -> int:
        """Return the first step of a block's burst.

        Args:
            first: the first step of the block.
            size: number of steps of the block, a power of two.
            burst: number of steps of a burst, a power of two.
            inverse: whether the steps of the burst are those that are not sampled.
        """
        while size > burst:
            number = self._hash(_INVERSE if inverse else _HALF, size, first // size)
            size //= 2
            first += size * (number >> 63)
        return first

    def _hash(self, purpose: int, size: int, block: int) -> int:
        """Return 64 random bits for a block: splitmix64, https://prng.di.unimi.it/splitmix64.c."""
        number = self._seed
        for part in (purpose, size, block):
            number = (number ^ part) + 0x9E3779B97F4A7C15 & _MASK
            number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
            number = (number ^ (number >> 27)) * 0x94D049BB133111EB & _MASK
            number ^= number >> 31
        return number
