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
    """One interface. Making it loads nothing; what loads something of a vendor's says so.

    Attributes:
        name: of the interface.
        source: its number, in the extension and the store.
        activity: what asks for it, of the option `activities`.
        platform: what of the vendor's a job uses that uses the device.
        traces: which devices.
        package: what brings its library.
        clock: begin of the line that tells how good times are where they are not of our clock.
        covers: options that are without effect unless it records.
        files: what it records are files of its own, in the result directory that is recorded into.
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
        """Return what is recorded."""
        return f"kernels of the {self.activity}"

    def tracing(self, recorder: Recorder, host: "Host | None" = None) -> Tracing | None:
        """Return what records; None where nothing can.

        Args:
            recorder: that receives the records.
            host: that it is for; None to try whether it could be.
        """
        return recorder.tracing(self.source)

    def serves(self, recordings: Sequence[Options]) -> bool:
        """Return whether it is for some recordings, of several interfaces to one device the first that is.

        Args:
            recordings: their options.
        """
        return True

    def reason(self, recordings: Sequence[Options]) -> str:
        """Return why it is for them rather than another one; empty where there is none beside it.

        Args:
            recordings: their options.
        """
        return ""

    @abstractmethod
    def libraries(self) -> list[str]:
        """Return where its library can be loaded from, what is to be tried first at the front; loads nothing."""

    @abstractmethod
    def missing(self) -> str:
        """Return why there is no driver, and what to do, in one line; empty when there is one, which is then loaded."""

    @abstractmethod
    def devices(self) -> tuple[int, str]:
        """Return how many devices there are, and why none; has the driver in use from there on."""

    @abstractmethod
    def owner(self, profiled: bool) -> str:
        """Return who has the interface when it is not us.

        Args:
            profiled: the script has used a profiler of its own.
        """

    @abstractmethod
    def kinds(self, recordings: "Sequence[Recording]") -> Kinds:
        """Return what to record for some recordings."""

    def left_out(self, kinds: str) -> str:
        """Return why some kinds of records are left out of a recording that goes on, and what to do.

        Args:
            kinds: which, as the interface refused them.
        """
        return f"{self.name} refuses {kinds}"

    def left_to(self, host: "Host") -> str:
        """Return why the device is left to somebody else in this process; empty where it is not."""
        return ""

    def version(self, library: str, told: int) -> str:
        """Return the version of a library, as people know it; empty where it is not known.

        Args:
            library: its file.
            told: by the library itself; 0 where it tells none.
        """
        return str(told) if told else ""
