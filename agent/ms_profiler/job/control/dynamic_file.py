"""The JSON file of dynamic profiling: the next steps to record, and the options.

MindSpore's public documents of `DynamicProfilerMonitor` list the keys of the file. Every option of ms-profiler is
allowed as a key, too. Some values are numbers in MindSpore's interface and names in ms-profiler's options (`NUMBERS`).
"""

import posix
from _io import open
from dataclasses import dataclass
from json import dumps, loads
from typing import Any, Final

from ms_profiler import clock, options, paths
from ms_profiler.store import layout

NAME: Final = "profiler_config.json"
#: key of the file -> number in MindSpore's interface -> value of ms-profiler's option of the same name
NUMBERS: Final[dict[str, dict[int, Any]]] = {
    "aic_metrics": {
        -1: "None",
        0: "PipeUtilization",
        1: "ArithmeticUtilization",
        2: "Memory",
        3: "MemoryL0",
        4: "MemoryUB",
        5: "ResourceConflictRatio",
        6: "L2Cache",
        7: "MemoryAccess",
    },
    "activities": {0: ["CPU", "NPU"], 1: ["CPU"], 2: ["NPU"]},
    "export_type": {0: ["text"], 1: ["db"], 2: ["text", "db"]},
}
#: Content of a new file of dynamic profiling.
DEFAULTS: Final[dict[str, Any]] = {
    "start_step": -1,
    "stop_step": -1,
    "aic_metrics": "AiCoreNone",
    "profiler_level": "Level0",
    "activities": ["CPU", "NPU"],
    "export_type": ["text"],
    "profile_memory": False,
    "mstx": False,
    "parallel_strategy": False,
    "with_stack": False,
    "data_simplification": True,
    "l2_cache": False,
    "analyse": True,
    "analyse_mode": -1,
    "record_shapes": False,
    "prof_path": "./",
    "mstx_domain_include": [],
    "mstx_domain_exclude": [],
    "host_sys": [],
    "sys_io": False,
    "sys_interconnection": False,
}
#: Keys of the file that are not options of ms-profiler.
OWN: Final = ("start_step", "stop_step", "analyse", "analyse_mode", "prof_path", "is_valid")


@dataclass(frozen=True)
class Plan:
    """The steps and options that the file requests.

    Attributes:
        start: first step to record, where the first step of the job is 1; -1 to record nothing.
        stop: last step to record.
        path: directory that receives the result; empty for the default directory.
        options: the options of the recording: the file's values, else those of MS_PROFILER_OPTIONS, else the defaults.
        messages: one line for each option with a wrong value.
    """

    start: int
    stop: int
    path: str
    options: options.Options
    messages: list[str]

    @property
    def wanted(self) -> bool:
        """Return whether the file requests any steps."""
        return self.start > 0


class DynamicFile:
    """Read the file of dynamic profiling when it has changed.

    Args:
        path: path of the file.
        given: values for the options that the file does not set.
        interval: smallest number of seconds between two checks of the file, which may be on a slow file system.
    """

    def __init__(self, path: str, given: dict[str, Any], interval: float) -> None:
        self.path = path
        self._given = given
        self._interval = interval
        self._next = 0.0
        self._seen: tuple[int, int, int] | None = None

    def create(self) -> None:
        """Make the file with the default content, if it does not exist.

        Raises:
            OSError: the file cannot be written.
        """
        paths.makedirs(paths.dirname(self.path), layout.DIRECTORY_MODE)
        try:
            descriptor = posix.open(
                self.path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, layout.FILE_MODE
            )
        except FileExistsError:
            return
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(dumps(DEFAULTS, indent=4))

    def look(self) -> Plan | None:
        """Return the steps and options that the file requests, or None if the file has not changed since the last call.

        Raises:
            ValueError: the content is invalid; the error is raised once after each change of the file.
        """
        now = clock.monotonic()
        if now < self._next:
            return None
        self._next = now + self._interval
        try:
            found = posix.stat(self.path)
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen == self._seen:
                return None
            self._seen = seen
            with open(self.path, encoding="utf-8") as stream:
                content = loads(stream.read())
        except OSError:
            return None  # the file does not exist yet, or another process is replacing it
        except (ValueError, RecursionError) as reason:
            raise ValueError(f"{self.path} is not JSON ({reason}); once corrected, it is read again") from None
        if not isinstance(content, dict):
            raise ValueError(f'{self.path} must hold an object like {{"start_step": 10, "stop_step": 12}}')
        return self._plan(content)

    def _plan(self, content: dict[str, Any]) -> Plan:
        start, stop = content.get("start_step", -1), content.get("stop_step", -1)
        for key, value in (("start_step", start), ("stop_step", stop)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{key} in {self.path} is {value!r}, but must be the number of a step, or -1")
        if start > stop:
            raise ValueError(f"start_step {start} in {self.path} is after stop_step {stop}; nothing is recorded")
        values = dict(self._given)
        for key, value in content.items():
            if key not in OWN:
                values[key] = NUMBERS.get(key, {}).get(value, value) if type(value) is int else value
        if values.get("aic_metrics") == "AiCoreNone":
            values["aic_metrics"] = "None"
        if not content.get("analyse", True):
            values["analyse"] = "off"
        else:
            # the training loop waits for the analysis only if the file requests it
            values["analyse"] = "sync" if content.get("analyse_mode", -1) == 0 else "async"
        resolved, messages = options.resolve(values)
        path = str(content.get("prof_path", "./"))
        return Plan(start, stop, "" if path == "./" else path, resolved, messages)
