"""The version of ms-profiler."""

VERSION = "0.1.0"
