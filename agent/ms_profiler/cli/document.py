"""Replace the generated part of a Markdown file, which stands between two marks."""

import os
from dataclasses import dataclass

from ms_profiler.errors import UsageError


@dataclass(frozen=True)
class Marks:
    """The two marks around a generated part of a Markdown file.

    Attributes:
        name: the name of the part, which both marks contain.
    """

    name: str

    @property
    def begin(self) -> str:
        """Return the mark before the generated part."""
        return f"<!-- {self.name}:begin -->"

    @property
    def end(self) -> str:
        """Return the mark after the generated part."""
        return f"<!-- {self.name}:end -->"

    def __str__(self) -> str:
        return f"{self.begin} and {self.end}"

    def rewritten(self, document: str, content: str) -> str:
        """Return a document with new content between its marks.

        Args:
            document: the whole document.
            content: the new content, in whole lines.

        Raises:
            ValueError: the document lacks the marks.
        """
        start = document.index(self.begin) + len(self.begin)
        return f"{document[:start]}\n{content}{document[document.index(self.end, start) :]}"

    def write(self, path: str, content: str) -> None:
        """Replace the content between the marks of a file; if it has this content already, do not write the file.

        Args:
            path: the path of the file.
            content: the new content, in whole lines.

        Raises:
            UsageError: the file cannot be read or written, or lacks the marks.
        """
        try:
            with open(path, encoding="utf-8") as stream:
                before = stream.read()
            after = self.rewritten(before, content)
            if after != before:
                temporary = f"{path}.{os.getpid()}.tmp"
                with open(temporary, "w", encoding="utf-8") as stream:
                    stream.write(after)
                os.replace(temporary, path)
        except OSError as reason:
            raise UsageError(f"Cannot rewrite {path}: {reason.strerror}.") from None
        except ValueError:
            raise UsageError(f"{path} has no lines {self}.", f"Add both where the {self.name} go.") from None
