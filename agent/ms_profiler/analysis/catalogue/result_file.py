"""The description of a file of a result. `ms-profiler tables --files` and docs/files.md show these descriptions."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ResultFile:
    """A file of a result, or a table of a database.

    Attributes:
        name: the name of the file; `{rank}` stands for the rank.
        meaning: the meaning of a row, and the condition under which the file is written.
        columns: column of a table, or key of JSON -> its meaning, in the order of the file. If a run has no data for a
            column, its file lacks the column.
    """

    name: str
    meaning: str
    columns: dict[str, str]
