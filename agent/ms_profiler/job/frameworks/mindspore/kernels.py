"""Record the kernels that MindSpore runs on a CPU, with MindSpore's own C++ recorder of kernels.

In graph mode, ms-profiler sees these kernels in no other way. MindSpore's recorder keeps 470 bytes a kernel in memory
until it is stopped. In pynative mode, it also keeps the inputs of steps. In a test with a convolutional net, it kept
twice the size of the batch for each step: 32 MB after 40 steps. So ms-profiler stops and restarts MindSpore's recorder
in two cases: after `op_flush` kernels, and when the process holds many more bytes than at the last start
(`KERNEL_WINDOW_FIRST`, later `KERNEL_WINDOW_MOST`).

ms-profiler stops MindSpore's recorder between two steps, on the thread that runs the steps, after all queued work has
run. In tests that stopped it on another thread, it lost records, and once it ended the job. When it is stopped, it
writes a few files. ms-profiler keeps these files unchanged.
"""

import posix
import sys
from _io import open
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler import paths
from ms_profiler.job.frameworks.base import Target, loaded
from ms_profiler.job.pace import Pace
from ms_profiler.job.samplers import statm
from ms_profiler.job.sources import NEVER
from ms_profiler.store import layout
from ms_profiler.store.format import Category, Kind
from ms_profiler.store.names import (
    KERNEL_DRAIN,
    KERNEL_WINDOW,
    KERNEL_WINDOW_END,
    KERNEL_WINDOW_FIRST,
    KERNEL_WINDOW_MOST,
    KERNEL_WINDOWS_SHORT,
)

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

OWN_PROFILER = "mindspore.profiler.platform.cpu_profiler"
#: Begin of the name of a file that MindSpore's recorder writes; the rank follows. The file has a line for each type of
#: kernel. The second column is the number of kernels of this type.
TYPES = "cpu_op_type_info_"
#: approximate time between two checks of the process's memory, ns, and the largest number of steps between them
LOOK_NS, LOOK_STEPS = 5_000_000, 64
#: Time that MindSpore's recorder takes for one kernel, ns. It was measured as 0.2 ms in a step of 21 kernels.
KERNEL_NS = 9_000
#: Number of steps in the first period between start and stop of the recorder. This period shows how many kernels a step
#: has.
FIRST_STEPS = 1


class KernelStream:
    """Collect kernels in windows. In each window, MindSpore's recorder runs for some steps, then writes its files.

    Args:
        host: the session, which stores the files.
        recorder: MindSpore's recorder of CPU kernels.
    """

    def __init__(self, host: "Host", recorder: Any) -> None:
        self.host = host
        self._recorder = recorder
        self._folder = ""  # this process's folder in the result; receives the window's files
        self._windows = 0
        self._running = ""
        self._interruptions = 0
        self._steps = FIRST_STEPS  # number of steps after which MindSpore's recorder is restarted
        self._began = 0  # number of steps before the last start of MindSpore's recorder
        self._held = 0  # bytes that the process held at the last start of MindSpore's recorder
        self._pace = Pace(LOOK_NS, most=LOOK_STEPS, slack=4)  # number of steps between two checks of the memory
        self._spent = False  # whether the files have used up the disk space that `max_disk` allows
        self._memory = ""  # path of the newest file with records of MindSpore's allocator

    def start(self) -> None:
        """Start MindSpore's recorder, if it may run now: no profiler of the script runs, and disk space is left."""
        host, home = self.host, self.host.home
        if self._running or self._interruptions or home is None or not host.wants("CPU") or not self._wanted:
            return
        if host.asks("anonymize"):
            host.not_collected("kernels", "anonymize is on, and MindSpore writes them itself, with the job's names")
            return
        if home.folder != self._folder:
            self._folder, self._bytes, self._memory, self._spent = home.folder, 0, "", False
            self._windows = len(layout.windows(home.folder))
        if not self._affordable():
            return
        folder = layout.window_dir(self._folder, self._windows)
        paths.makedirs(paths.dirname(folder), layout.DIRECTORY_MODE)
        posix.mkdir(folder, layout.DIRECTORY_MODE)
        host.recorder.record(*self._mark(KERNEL_WINDOW))
        self._recorder.init(folder)
        self._recorder.step_profiling_enable(True)
        self._recorder.enable_op_time()
        if host.asks("profile_memory"):
            self._recorder.enable_profile_memory()
        self._running = folder
        self._held = self._holds()
        self._began = host.steps.count
        host.steps.next_look = 0  # call `stepped` after the next step, because it was not called while no window ran

    def stop(self) -> None:
        """Stop MindSpore's recorder if it runs; it then writes its files."""
        if not self._running:
            return
        recorder = self.host.recorder
        begun = recorder.now()
        self._wait()
        self._recorder.stop()
        folder, self._running = self._running, ""
        kernels = self._finish_files(folder)
        recorder.record(*self._mark(KERNEL_WINDOW_END))
        name = recorder.intern(KERNEL_DRAIN)
        recorder.record(Kind.SPAN, Category.PROFILER, 0, name, begun, recorder.now(), kernels)
        self._windows += 1

    def stepped(self, count: int) -> tuple[int, bool]:
        """Start or stop MindSpore's recorder between two steps, as schedule, number of kernels and memory require."""
        was = self._running
        scheduled = self.host.steps.schedule is not None
        wanted = self._wanted
        if not wanted or count - self._began >= self._steps or self._crowded():
            self.stop()
        if wanted:
            self.start()
        if scheduled:
            return count + 1, was != self._running
        # NEVER is right if the recorder did not start here. `start` is also called when the next recording begins, and
        # after the script's profiler has stopped.
        next_look = min(self._began + self._steps, count + self._pace.steps)
        return (next_look if self._running else NEVER), was != self._running

    @property
    def _wanted(self) -> bool:
        """Return whether to record the kernels of this step: the schedule and `overhead_budget` both allow it."""
        return self.host.steps.recording and self.host.steps.marks.sampled

    def _crowded(self) -> bool:
        """Return whether the process holds much more memory than when the recorder was started.

        The memory is checked only every few milliseconds, because each check takes time. A call in between returns
        False.
        """
        if not self._running:
            return False
        now = self.host.recorder.now()
        if not self._pace.adapt(now):
            return False
        self._pace.last = now
        most = KERNEL_WINDOW_FIRST if self._windows < KERNEL_WINDOWS_SHORT else KERNEL_WINDOW_MOST
        return self._holds() - self._held > most

    def _holds(self) -> int:
        """Return the bytes of memory that the process holds; 0 if the system does not report them."""
        try:
            return statm.held()
        except OSError:
            return 0

    def yield_to(
        self, wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Stop MindSpore's recorder before the script's own profiler starts, because this profiler uses it, too."""
        with self.host.guard("stopping the kernel recorder for the script's own profiler"):
            self.stop()
            self._interruptions += 1
            self.host.not_collected(
                "kernels while the script's own profiler runs", "MindSpore has one recorder of CPU kernels"
            )
        return wrapped(*args, **kwargs)

    def resume(self, wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Start MindSpore's recorder again after the script's own profiler has stopped."""
        result = wrapped(*args, **kwargs)
        with self.host.guard("resuming after the script's own profiler"):
            self._interruptions = max(self._interruptions - 1, 0)
            self.start()
        return result

    @property
    def _flush(self) -> int:
        home = self.host.home
        return home.options.op_flush if home is not None else 0

    @staticmethod
    def _wait() -> None:
        """Wait for all queued work, through a function that is not wrapped: this wait is ours, and is not recorded."""
        executor = sys.modules[loaded("mindspore.graph.api", "mindspore.common.api")]._pynative_executor
        getattr(executor, "_executor", executor).sync()

    def _mark(self, name: str) -> tuple[int, int, int, int, int, int, int]:
        recorder = self.host.recorder
        now = recorder.now()
        return Kind.INSTANT, Category.PROFILER, 0, recorder.intern(name), now, now, self._windows

    def _finish_files(self, folder: str) -> int:
        """Count the bytes and kernels of the files of one window, set the number of steps of the next window.

        Returns:
            The number of kernels in the files.
        """
        size = kernels = 0
        for name in posix.listdir(folder):
            path = paths.join(folder, name)
            posix.chmod(path, layout.FILE_MODE)
            size += posix.stat(path).st_size
            if name.startswith(layout.MEMORY_PREFIX):
                # each file has all records since the recorder's first start, so the newest replaces the previous one
                if self._memory:
                    size -= posix.stat(self._memory).st_size
                    posix.unlink(self._memory)
                self._memory = path
            if name.startswith(TYPES):
                with open(path, "rb") as stream:
                    counts = [line.split(b",")[1:2] for line in stream.read().splitlines()[1:]]
                kernels = sum(int(count) for cell in counts for count in cell if count.isdigit())
        self.host.recorder.spend(size)
        steps = self.host.steps.count - self._began
        if kernels and steps > 0:
            self._steps = max(self._flush * steps // kernels, 1)
            self.host.expect("kernels", KERNEL_NS * kernels / steps)
        return kernels

    def _affordable(self) -> bool:
        if self.host.recorder.room():
            return True
        if not self._spent:
            self._spent = True
            reached = f"{self.host.limited_by} was reached"
            self.host.not_collected(f"kernels from step {self.host.steps.number} on", reached)
        return False


def targets(host: "Host") -> list[Target]:
    """Register the collection of kernels; return the functions to wrap, which start and stop MindSpore's profiler."""
    from ms_profiler.job.frameworks.mindspore import takeover

    if not host.owner or takeover.left_running:
        return []
    recorder = sys.modules["mindspore._c_expression"].Profiler.get_instance("CPU")
    if recorder is None:
        host.not_collected("kernels", "this MindSpore has no recorder of CPU kernels")
        return []
    stream = KernelStream(host, recorder)
    host.at_step(stream.stepped)
    host.at_start(stream.start)
    host.at_end(stream.stop)
    return [
        Target(OWN_PROFILER, "CpuProfiler.start", stream.yield_to),
        Target(OWN_PROFILER, "CpuProfiler.stop", stream.resume),
    ]
