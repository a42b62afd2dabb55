"""Store how a job is divided among its ranks, as its framework reports it, for the option `parallel_strategy`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ms_profiler import paths
from ms_profiler.job.frameworks import side_file
from ms_profiler.job.sources import NEVER
from ms_profiler.store import layout, run_info

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

OPTION: Final = "parallel_strategy"
#: largest number of items, for example groups, in a list of the stored description
MOST: Final = 10_000


class Strategy:
    """Store how a job is divided among its ranks. Check for changes after the steps 1, 2, 4 and so on, and at the end.

    Args:
        host: the session, which stores the description.
        read: a function that asks the framework and returns the description as a JSON object; empty if the job is not
            divided.
    """

    def __init__(self, host: "Host", read: Callable[[], dict[str, Any]]) -> None:
        self._host, self._read = host, read
        self._last_written = "", ""
        host.at_step(self.stepped, follows=False)
        host.at_end(self.end)

    def stepped(self, count: int) -> tuple[int, bool]:
        """Store the description if it has changed; return the step of the next check, and whether it has changed."""
        if not self._host.asks(OPTION):
            return NEVER, False
        return max(2 * count, 1), self.store_if_changed()

    def end(self) -> None:
        """Store the description at the end of a recording if it has changed."""
        self.store_if_changed()

    def store_if_changed(self) -> bool:
        """Write the description if it has changed; return whether it was written."""
        home = self._host.home
        if home is None or self._host.forked or not self._host.asks(OPTION):
            return False
        content = side_file.as_json(self._host, self._read())
        if (home.folder, content) == self._last_written or content == "{}" or not paths.isdir(home.folder):
            return False
        run_info.replace(layout.strategy_path(home.folder), content)
        self._last_written = home.folder, content
        return True
