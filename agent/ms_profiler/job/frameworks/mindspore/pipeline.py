"""Sample the operators of dataset pipelines, their queues and processor time, with MindSpore's C++ dataset profiler.

After its set-up, MindSpore's dataset profiler watches the next pipeline that is built. By default, the profiler's
thread takes a sample every second, and each sample takes 50 ms of processor time. The profiler holds 300 bytes a batch
in memory until the samples are saved. So ms-profiler runs the dataset profiler only in windows, and the pauses between
the windows grow. The module `sampling_plan` plans the windows. ms-profiler keeps the files of the dataset profiler
unchanged.

While the dataset profiler is on, it prints a warning for each further pipeline. So ms-profiler watches one pipeline at
a time, until this pipeline has ended. Before that, it never sets the dataset profiler up again, because the thread of
the dataset profiler would then read freed memory.
"""

import atexit
import os
import posix
import sys
from collections.abc import Callable
from enum import Enum
from threading import Condition, RLock, get_ident
from typing import TYPE_CHECKING, Any, Final

from ms_profiler import paths
from ms_profiler.job.frameworks import trees
from ms_profiler.job.frameworks.base import Labels, Target, keep_signature
from ms_profiler.job.frameworks.mindspore.native_threads import NativeThreads, numbers
from ms_profiler.job.frameworks.mindspore.sampling_plan import SamplingPlan
from ms_profiler.job.guard import Late
from ms_profiler.store import layout
from ms_profiler.store.format import Category, Kind
from ms_profiler.store.names import DATASET_WINDOW, DATASET_WINDOW_END

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

ENGINE: Final = "mindspore._c_dataengine"
ITERATORS: Final = "mindspore.dataset.engine.iterators"
#: Largest number of windows (periods in which samples are taken) in a run. Each window makes three files.
WINDOWS: Final = 200
#: Longest time that a thread waits before it builds a pipeline, while another thread builds one; s.
PATIENCE: Final = 1.0
#: Files that MindSpore's dataset profiler reads for each sample. If it cannot read one of them, it ends the pipeline
#: with an error.
SOURCES: Final = ("/proc/stat", "/proc/meminfo", "/proc/self/stat", "/proc/self/smaps")

SUBJECT: Final = "operators of dataset pipelines"


class State(Enum):
    """The state of MindSpore's dataset profiler."""

    OFF = "no pipeline is watched"
    ON = "samples are taken"
    HALTED = "stopped; its samples are not saved yet"
    PARKED = "stopped; it has no samples to save"


class PipelineStream:
    """Collect samples of one pipeline at a time, in windows.

    Args:
        host: the session, which stores the samples.
        manager: MindSpore's dataset profiler.
        set_up: the original method `init` of the dataset profiler, which our hook replaces.
    """

    def __init__(self, host: "Host", manager: Any, set_up: Callable[[Any], None]) -> None:
        self.host = host
        self._manager = manager
        self._set_up = set_up
        self._lock = RLock()
        self._built = Condition(self._lock)
        self._state = State.OFF
        self._watched: Any = 0  # id of the watched pipeline's iterator. 0: none is watched; -1: it is ending
        self._batches: Callable[[], int] = lambda: 0  # returns the number of batches of the watched pipeline
        self._threads = NativeThreads([])  # threads of the watched pipeline
        self._builder: int | None = None  # thread that is building a pipeline to be watched
        self._disturbed = False  # whether another pipeline was built at the same time as the watched one
        self._others = 0  # number of pipelines that are being built now and will not be watched
        self._given_up = ""
        self._folder = ""  # this process's folder in the result; receives the window's files
        self._windows = 0
        self._window = 0  # number of the window of samples that runs or ran last
        self._bytes = 0
        self._pipelines: Labels[int] = Labels(lambda _: self._count_pipeline())
        self._count = 0
        self._pipeline = 0
        self._plan = SamplingPlan()
        atexit.register(self.host.guard("ending").around(self._exit))

    # -- hooks

    def create(self, wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the constructor of an iterator, which builds a pipeline, and sample this pipeline if possible."""
        armed, before = False, set[str]()
        with self.host.guard("watching a dataset pipeline"):
            armed = self._arm(args[0] if args else kwargs.get("dataset"))
            before = set(numbers()) if armed else before
        if not armed:
            return self._beside(wrapped, args, kwargs)
        try:
            result = wrapped(*args, **kwargs)
        except BaseException:
            # The traceback may keep parts of the pipeline alive. Then it is not safe to set the dataset profiler up
            # again.
            with self.host.guard("leaving a dataset pipeline"):
                self._abandon("a pipeline could not be built")
            raise
        with self.host.guard("watching a dataset pipeline"):
            self._watch(instance, [thread for thread in numbers() if thread not in before])
        return result

    def _beside(self, wrapped: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Build a pipeline that is not watched, and begin no window of samples until the pipeline is complete."""
        if self.host.forked:
            return wrapped(*args, **kwargs)
        with self._lock:
            self._others += 1
        try:
            return wrapped(*args, **kwargs)
        finally:
            with self._lock:
                self._others -= 1

    def close(self, wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a function that ends or replaces the pipeline of an iterator, and then save the samples."""
        watched = self._watched == id(instance) and not self.host.forked
        if watched:
            with self.host.guard("leaving a dataset pipeline"), self._lock:
                self._halt()
                self._watched = -1  # until the pipeline has ended, no pipeline may be watched
        result = wrapped(*args, **kwargs)
        if watched:
            with self.host.guard("saving the samples of a dataset pipeline"), self._lock:
                if self._state is State.HALTED:
                    self._save()
                self._state, self._watched, self._threads = State.OFF, 0, NativeThreads([])
                self._batches = lambda: 0
        return result

    def yield_to(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of the dataset profiler's `init`; when the script calls it, our sampling ends."""

        def init(manager: Any) -> Any:
            watched = self._watched
            with self.host.guard("stopping for the script's own dataset profiler"):
                self._give_up("the script uses MindSpore's dataset profiler itself")
            # while a pipeline is watched, `init` has run already, and a second run would let a thread read freed memory
            return None if watched else original(manager)

        return keep_signature(original, init)

    # -- functions that the session calls between steps, and at the begin and end of recordings

    def begin(self) -> None:
        """Begin a new window of samples of the watched pipeline, if a pipeline is watched."""
        with self._lock:
            if self._state is State.PARKED and self._wanted() and self._threads.settle():
                self._restart()

    def end(self) -> None:
        """End the window of samples and save them; the pipeline may continue."""
        with self._lock:
            self._halt()
            if self._state is State.HALTED:
                self._save_settled()
            elif not self._windows and not self._given_up:
                self._not_collected(SUBJECT, "no pipeline of mindspore.dataset was built")

    def stepped(self, count: int) -> tuple[int, bool]:
        """Begin or end a window of samples, between two steps; this runs about once a second."""
        if self._state is State.OFF:
            return sys.maxsize, False
        with self._lock:
            took = self._turn()
        return self._plan.next_look(count), took

    def _turn(self) -> bool:
        if self._state is State.ON and (not self._wanted() or self._plan.over(self._batches())):
            self._halt()
        begin = self._state is not State.ON and not self._plan.paused and self._wanted()
        if not (begin or self._state is State.HALTED) or not self._threads.still():
            return False
        if self._state is State.HALTED:
            self._save()
        if begin:
            self._restart()
        return True

    # -- one pipeline

    def _arm(self, dataset: Any) -> bool:
        """Set the dataset profiler up for the pipeline that is built next; return whether this was possible."""
        if self.host.forked:
            if self._state is State.ON:  # a fork child has a copy of the dataset profiler, without its thread
                self._state = State.PARKED
                self._manager.stop()
            return False
        if self.host.asks("anonymize"):
            self._not_collected(SUBJECT, "anonymize is on, and MindSpore writes them itself, with the job's names")
            return False
        with self._lock:
            own = get_ident()
            self._built.wait_for(lambda: self._builder in (None, own), PATIENCE)
            if self._builder is not None:
                # Two threads build a pipeline at the same time. The dataset profiler might watch the wrong one.
                if not self._disturbed:
                    self._disturbed = True
                    self._manager.stop()
                return False
            if self._watched:
                self._halt()  # so that the profiler prints no warning of a second pipeline; the next step resumes it
                if self._wanted():
                    why = "MindSpore's dataset profiler watches one pipeline at a time"
                    self._not_collected(f"{SUBJECT} that are built while another one lives", why)
                return False
            if self._others or not self._wanted() or not self._possible():
                return False
            fresh = self._count
            self._pipeline = self._number(dataset)
            if self._pipeline < fresh and self._plan.paused:
                self._state = State.PARKED
            self._set_up(self._manager)
            self._manager.start()
            self._builder = own
            return True

    def _watch(self, iterator: Any, threads: list[str]) -> None:
        """Note that the dataset profiler watches the pipeline of this iterator; `threads` are its thread ids."""
        with self._lock:
            self._watched, self._threads = id(iterator), NativeThreads(threads)
            self._batches = _counter(iterator)
            self._plan.restart()
            if self._disturbed:
                self._abandon("two pipelines were built at once")
            elif not threads:
                self._abandon("MindSpore's dataset profiler did not start")
            elif self._state is State.PARKED:
                self._manager.stop()
                self._threads.forget()
            else:
                self._begin_window()
            self._builder = None
            self._built.notify_all()
            self.host.steps.next_look = 0

    def _abandon(self, why: str) -> None:
        """Watch no pipeline from now on: parts of the pipeline that was being built may exist for an unknown time."""
        with self._lock:
            if not self._disturbed:
                self._manager.stop()
            self._state = State.PARKED
            self._give_up(why)
            self._builder = None
            self._built.notify_all()

    def _begin_window(self) -> None:
        home = self.host.home
        assert home is not None
        if home.folder != self._folder:
            self._folder, self._windows, self._bytes = home.folder, 0, 0
        self._window, self._windows = self._windows, self._windows + 1
        self._state = State.ON
        self._plan.begin(self._batches())
        self._mark(DATASET_WINDOW)

    def _restart(self) -> None:
        if self._watched > 0 and not self._others:
            self._manager.start()
            self._begin_window()

    def _halt(self) -> None:
        """End the window of samples; if the dataset profiler has begun a sample, it still completes it."""
        if self._state is not State.ON:
            return
        self._manager.stop()
        self._state = State.HALTED
        self._threads.forget()
        self._mark(DATASET_WINDOW_END)
        self._plan.end()

    def _save(self) -> None:
        folder = layout.pipeline_dir(self._folder, self._window)
        self._state = State.PARKED
        paths.makedirs(paths.dirname(folder), layout.DIRECTORY_MODE)
        posix.mkdir(folder, layout.DIRECTORY_MODE)
        self._manager.save(folder)
        size = 0
        for name in posix.listdir(folder):
            path = paths.join(folder, name)
            posix.chmod(path, layout.FILE_MODE)
            size += posix.stat(path).st_size
        self._bytes += size
        self.host.recorder.spend(size)

    def _save_settled(self) -> None:
        if self._threads.settle():
            self._save()
        else:
            self._state = State.PARKED
            self._not_collected(f"{SUBJECT} in their last window", "the last sample was not complete")

    def _give_up(self, why: str) -> None:
        """Save the samples that exist, and watch no pipeline from now on."""
        with self._lock:
            self._halt()
            if self._state is State.HALTED:
                self._save_settled()
            if not self._given_up:
                self._not_collected(f"{SUBJECT} from here on" if self._windows else SUBJECT, why)
            self._given_up = why

    def _exit(self) -> None:
        """Save the samples when Python exits. Later would be too late: Python removes functions that iterators call."""
        with self.host.guard("leaving a dataset pipeline"), Late(self.host.recorder.delay_signals):
            if not self.host.forked:
                self.end()
        self._watched, self._given_up = 0, self._given_up or "the process ends"

    # -- conditions

    def _wanted(self) -> bool:
        """Return whether the options of a recording request samples of pipelines, and the limits allow more of them."""
        host = self.host
        if self._given_up or not host.owner or not host.steps.recording:
            return False
        if not any(recording.options.data_process for recording in host.recordings):
            return False
        most = host.limit // 20
        if self._windows >= WINDOWS or (most and self._bytes >= most):
            self._give_up(f"they took {self._bytes / 1e6:.0f} MB in {self._windows} windows")
            return False
        return True

    def _possible(self) -> bool:
        """Return whether the next pipeline can be watched without harm to the job."""
        config = sys.modules["mindspore.dataset.core.config"]
        if config.get_enable_autotune():
            self._not_collected(SUBJECT, "AutoTune of datasets is on, and uses the same profiler")
        elif os.environ.get("MS_INDEPENDENT_DATASET", "").lower() == "true":
            self._not_collected(SUBJECT, "MS_INDEPENDENT_DATASET moves them to another process")
        elif config.get_debug_mode():
            self._not_collected(SUBJECT, "the debug mode of datasets runs them without queues")
        elif unreadable := [path for path in SOURCES if not posix.access(path, posix.R_OK)]:
            self._not_collected(SUBJECT, f"{unreadable[0]} cannot be read")
        else:
            return True
        return False

    def _not_collected(self, what: str, why: str) -> None:
        for recording in self.host.recordings:
            if recording.options.data_process:
                recording.not_collected(what, why)

    def _count_pipeline(self) -> int:
        self._count += 1
        return self._count - 1

    def _number(self, dataset: Any) -> int:
        """Return the number of a dataset, which is the same for every iterator over this dataset."""
        while trees.kind_name(dataset) == "ProjectDataset":  # an iterator over some columns makes a new dataset
            (dataset,) = trees.attributes(dataset)["children"]
        number = self._pipelines.known.get(id(dataset))
        return self._pipelines.add(dataset) if number is None else number

    def _mark(self, name: str) -> None:
        recorder = self.host.recorder
        now = recorder.now()
        arg = self._pipeline << 32 | self._window
        recorder.record(Kind.INSTANT, Category.PROFILER, 0, recorder.intern(name), now, now, arg)


def _counter(iterator: Any) -> Callable[[], int]:
    """Return a function that returns the number of batches an iterator has made, without keeping the iterator alive."""
    values = trees.attributes(iterator)
    return lambda: int(values.get("_Iterator__index", 0))


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that build and end pipelines, and the dataset profiler's `init`."""
    from ms_profiler.job.frameworks.mindspore import takeover

    engine: Any = sys.modules.get(ENGINE)
    if not host.owner or takeover.left_running or not hasattr(engine, "ProfilingManager"):
        return []
    stream = PipelineStream(host, engine.GlobalContext.profiling_manager(), engine.ProfilingManager.init)
    host.at_step(stream.stepped)
    host.at_start(stream.begin)
    host.at_end(stream.end)
    return [
        Target(ITERATORS, "Iterator.__init__", stream.create),
        Target(ITERATORS, "Iterator.stop", stream.close),
        Target(ITERATORS, "Iterator._reset", stream.close),
        Target(ENGINE, "ProfilingManager.init", closure=stream.yield_to),
    ]
