"""The table of Python functions whose calls were traced."""

import os
from typing import Any

from rich.table import Table
from rich.text import Text

from ms_profiler.analysis.report import widths


def title(found: dict[str, Any]) -> str:
    """Return the title of the table.

    Args:
        found: `functions` of the summary.
    """
    threads = f"{found['threads']} thread{'s' * (found['threads'] > 1)}"
    less = f"; the shortest {found['left_out']:,} are left out" if found["left_out"] else ""
    return f"Python functions, from {found['calls']:,} traced calls of {threads}{less}"


def table(found: dict[str, Any], top: int) -> Table:
    """Return a table of the functions with the most self time: their time without the functions that they call.

    Args:
        found: `functions` of the summary.
        top: the number of rows.
    """
    made = widths.table("function", "calls", "self ms", "total ms")
    for row in found["rows"][:top]:
        place = f" ({os.path.basename(row['file'])}:{row['line']})" if row["file"] else ""
        made.add_row(
            Text(row["function"] + place),
            f"{row['calls']:,}",
            f"{row['self_us'] / 1e3:,.3f}",
            f"{row['total_us'] / 1e3:,.3f}",
        )
    return made
