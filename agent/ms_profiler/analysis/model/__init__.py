"""The tables of a recording, and the clock that converts its times."""
