"""A file of a result with its columns, as `ms-profiler tables --files` and docs/files.md describe it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ResultFile:
    """A file of a result, or a table of a database.

    Attributes:
        name: the name of the file; `{rank}` stands for the rank.
        meaning: the meaning of a row, and the condition under which the file is written.
        columns: name -> meaning of the columns of a table or of the keys of JSON, in the order of the file. Columns
            that a run does not have are left out.
    """

    name: str
    meaning: str
    columns: dict[str, str]
