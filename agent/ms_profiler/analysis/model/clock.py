"""Convert times from CLOCK_MONOTONIC_RAW nanoseconds to nanoseconds since the epoch; no other module does this.

An anchor is a reading of CLOCK_MONOTONIC_RAW (RAW) and CLOCK_REALTIME (REALTIME) at nearly the same moment. Its offset
is `offset = REALTIME - RAW`. The system adjusts REALTIME but not RAW, so the offset drifts by some 20 ppm (70 ms an
hour). Between anchors, the offset is interpolated. An anchor becomes a knot (supporting point) of the interpolation
only if `|offset - last knot's offset| > uncertainty of the two readings`. So a short run has one constant offset, and
its durations stay as measured.

If someone sets the wall clock during the run, the offset jumps. The jump is reported, and removed from the times.
`from_wall` removes the jumps from wall-clock times of other sources.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from ms_profiler.store.reader import Anchor

#: largest rate, in parts per million, at which adjtime(2) adjusts the clock gradually; a faster change is a jump
SLEW_PPM = 500
#: a smaller jump than this is ignored, because it looks the same as scheduling noise
STEP_MINIMUM_NS = 100_000
#: an anchor (reading of two clocks) is not used if reading took longer than POOR_READING * the shortest reading
POOR_READING = 10
#: largest expected difference between the wall clocks of two machines, ns
MACHINES_NS = 60_000_000_000
#: a time from another source may lie up to this many ns outside of the interval that should contain it. Errors of
#: extrapolation and slewing are smaller
SLACK_NS = 1_000_000_000


@dataclass(frozen=True)
class WallStep:
    """A jump of the wall clock, for example because someone set it.

    Attributes:
        at_ns: latest possible time of the jump, on the run's time line.
        jump_ns: the size of the jump in ns; negative if the clock was set back.
        after_ns: earliest possible time of the jump, on the run's time line.
    """

    at_ns: int
    jump_ns: int
    after_ns: int


@dataclass(frozen=True)
class Clock:
    """Converts times of CLOCK_MONOTONIC_RAW (RAW times) of one host to times since the epoch.

    Attributes:
        knots: the points between which the offset is interpolated: (raw, offset) pairs by time. The offset is linear
            between two knots, and constant before the first and after the last knot.
        uncertainty_ns: half the duration of the longest reading in use; None if no anchor was recorded.
        steps: the jumps of the wall clock during the run.
    """

    knots: tuple[tuple[int, int], ...]
    uncertainty_ns: int | None
    steps: tuple[WallStep, ...] = ()

    @classmethod
    def from_anchors(cls, anchors: Iterable[Anchor], fallback: Anchor | None = None) -> "Clock":
        """Return the clock that interpolates between `anchors`, which are simultaneous readings of two clocks.

        Args:
            anchors: the anchors of all processes of one host, in any order.
            fallback: a less certain anchor, used if `anchors` is empty.
        """
        pairs = sorted(anchors, key=lambda anchor: anchor.raw_ns) or ([fallback] if fallback else [])
        if not pairs:
            return cls(((0, 0),), None)
        limit = POOR_READING * max(min(pair.half_width_ns for pair in pairs), 100)
        good = [pair for pair in pairs if pair.half_width_ns <= limit]
        knots = [(good[0].raw_ns, good[0].real_ns - good[0].raw_ns)]
        steps: list[WallStep] = []
        shift = 0  # sum of the jumps so far
        last = previous = good[0]  # the anchor of the last knot, and the last anchor
        for pair in good[1:]:
            noise = pair.half_width_ns + last.half_width_ns
            change = pair.real_ns - pair.raw_ns - shift - knots[-1][1]
            slew = (pair.raw_ns - previous.raw_ns) * SLEW_PPM // 1_000_000
            before, previous = previous, pair
            if abs(change) > noise + slew + STEP_MINIMUM_NS:
                steps.append(WallStep(pair.raw_ns + knots[-1][1], change, before.raw_ns + knots[-1][1]))
                shift += change
            elif abs(change) > noise:
                knots.append((pair.raw_ns, knots[-1][1] + change))
                last = pair
        return cls(tuple(knots), max(pair.half_width_ns for pair in good), tuple(steps))

    def epoch(self, raw: pl.Series) -> pl.Series:
        """Convert RAW times to nanoseconds since the epoch.

        offset(t) = o_i + (o_i+1 - o_i) * (t - t_i) / (t_i+1 - t_i). Only the last term is a floating-point product. It
        stays below a second, so the result is exact to the nanosecond.

        Args:
            raw: Int64 times; nulls stay null.
        """
        if len(self.knots) == 1:
            return raw + self.knots[0][1]
        times, offsets, slopes = self.line
        row = (times.search_sorted(raw, side="right").cast(pl.Int64) - 1).clip(lower_bound=0)
        since = (raw - times.gather(row)).clip(lower_bound=0)
        creep = (slopes.gather(row) * since.cast(pl.Float64)).round().cast(pl.Int64)
        return (raw + offsets.gather(row) + creep).rename(raw.name)

    @cached_property
    def line(self) -> pl.DataFrame:
        """Return the knots, between which the offset is interpolated: `raw` and `offset`, Int64, and `slope`.

        `slope` = (next offset - offset) / (next raw - raw), and 0 for the last knot.
        """
        knots = pl.DataFrame(self.knots, {"raw": pl.Int64, "offset": pl.Int64}, orient="row")
        slope = pl.col("offset").diff().cast(pl.Float64) / pl.col("raw").diff().cast(pl.Float64)
        return knots.with_columns(slope=slope.shift(-1).fill_null(0.0))

    def from_wall(self, wall: pl.Series, start_ns: int, end_ns: int) -> pl.Series:
        """Convert readings of the wall clock to the run's time line, on which the clock has no jumps.

        A reading w has the time t = w - (sum of the jumps before t). Near a jump, two times may fit a reading. Then the
        earlier time is returned.

        Args:
            wall: Int64 nanoseconds since the epoch.
            start_ns: the earliest possible time.
            end_ns: the latest possible time.

        Returns:
            The times; null for readings that no time fits.
        """
        times = pl.repeat(None, len(wall), dtype=pl.Int64, eager=True)
        shift, after = 0, start_ns - SLACK_NS
        for place in range(len(self.steps) + 1):
            until = min(self.steps[place].at_ns, end_ns + SLACK_NS) if place < len(self.steps) else end_ns + SLACK_NS
            moved = wall - shift
            times = times.zip_with(times.is_not_null() | (moved < after) | (moved > until), moved)
            if place < len(self.steps):
                shift += self.steps[place].jump_ns
                after = max(self.steps[place].after_ns, start_ns - SLACK_NS)
        return times.rename(wall.name)

    def epoch_ns(self, raw: int) -> int:
        """Convert one time of CLOCK_MONOTONIC_RAW to nanoseconds since the epoch."""
        return int(self.epoch(pl.Series([raw], dtype=pl.Int64))[0])
