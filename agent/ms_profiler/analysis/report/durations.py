"""Durations as a person reads them."""


def milliseconds(value: float | None) -> str:
    """Return a duration with its unit, "-" where it is not known.

    Args:
        value: milliseconds.
    """
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.3f} ms" if value < 100 else f"{value:.1f} ms"
