"""A file of a result with its columns, as `ms-profiler tables --files` and docs/files.md describe it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ResultFile:
    """A file of a result, or a table of a database.

    Attributes:
        name: the name of the file; `{rank}` stands for the rank.
        meaning: the meaning of a row, and the condition under which the file is written.
        columns: column of a table, or key of JSON -> its meaning, in the order of the file. The file of a run lacks
            columns for which the run has no data.
    """

    name: str
    meaning: str
    columns: dict[str, str]
