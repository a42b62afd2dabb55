"""The declaration of a vendor's tracing interface; `source.py` treats all interfaces alike."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ms_profiler.job.recorder.contract import Recorder
from ms_profiler.job.recorder.tracing import Kinds, Tracing
from ms_profiler.options import Options
from ms_profiler.store.device_format import Source

if TYPE_CHECKING:
    from ms_profiler.job.host import Host
    from ms_profiler.job.recording import Recording


class Interface(ABC):
    """One interface. Making the object loads nothing; methods that load a vendor's library say so.

    Attributes:
        name: the name of the interface.
        source: its number, in the extension and the store.
        activity: the value of the option `activities` that asks for it.
        platform: the vendor's software that a job needs to use the device.
        traces: the devices that it traces.
        package: where to get its library.
        clock: begin of the line about the uncertainty of times, where they do not come from our clock.
        covers: options that have no effect unless this interface records.
        files: whether it writes its own files into the result directory.
    """

    name: ClassVar[str]
    source: ClassVar[Source]
    activity: ClassVar[str]
    platform: ClassVar[str]
    traces: ClassVar[str]
    package: ClassVar[str]
    clock: ClassVar[str]
    covers: ClassVar[tuple[str, ...]] = ()
    files: ClassVar[bool] = False

    @property
    def what(self) -> str:
        """Return a description of its records."""
        return f"kernels of the {self.activity}"

    def tracing(self, recorder: Recorder, host: "Host | None" = None) -> Tracing | None:
        """Return the object that records; None if recording is impossible.

        Args:
            recorder: the recorder that receives the records.
            host: the session; None for a test of the interface.
        """
        return recorder.tracing(self.source)

    def serves(self, recordings: Sequence[Options]) -> bool:
        """Return whether it can serve some recordings; if a device has several interfaces, the first that can is used.

        Args:
            recordings: the options of each recording.
        """
        return True

    def reason(self, recordings: Sequence[Options]) -> str:
        """Return why it serves them rather than another interface; empty if the device has no other.

        Args:
            recordings: the options of each recording.
        """
        return ""

    @abstractmethod
    def libraries(self) -> list[str]:
        """Return the places of its library, the one to try first at the front; loads nothing."""

    @abstractmethod
    def missing(self) -> str:
        """Return a line that says why there is no driver, with the remedy; empty if there is one, which is then
        loaded.
        """

    @abstractmethod
    def devices(self) -> tuple[int, str]:
        """Return the number of devices, and why there are none; this initialises the driver."""

    @abstractmethod
    def owner(self, profiled: bool) -> str:
        """Return the owner of the interface, if that is not ms-profiler.

        Args:
            profiled: the script has used a profiler of its own.
        """

    @abstractmethod
    def kinds(self, recordings: "Sequence[Recording]") -> Kinds:
        """Return the kinds of records that some recordings need."""

    def left_out(self, kinds: str) -> str:
        """Return why some kinds of records are left out of a recording that continues, and the remedy.

        Args:
            kinds: which, as the interface refused them.
        """
        return f"{self.name} refuses {kinds}"

    def left_to(self, host: "Host") -> str:
        """Return why another profiler gets the device in this process; empty if none does."""
        return ""

    def version(self, library: str, told: int) -> str:
        """Return the version of a library in its usual form; empty if unknown.

        Args:
            library: its file.
            told: the number that the library reports; 0 if it reports none.
        """
        return str(told) if told else ""
