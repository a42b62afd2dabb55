"""The tables of a recording, and the one place that converts times."""
