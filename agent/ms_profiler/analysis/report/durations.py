"""Durations as text for people."""


def milliseconds(value: float | None) -> str:
    """Return a duration with its unit as text, such as "3.142 ms"; "-" if the duration is unknown.

    Args:
        value: the duration in milliseconds; None if unknown.
    """
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.3f} ms" if value < 100 else f"{value:.1f} ms"
