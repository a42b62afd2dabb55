"""Describe a vendor's tracing interface, so that `source.py` can use all interfaces in the same way."""

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
    """A vendor's tracing interface. Methods that load a vendor's library say so; others load nothing.

    Attributes:
        name: the name of the interface.
        source: number of the interface in the C extension and in the records.
        activity: the value of the option `activities` that selects the devices of the interface.
        platform: the vendor's software that a job needs to use the device.
        traces: the devices that the interface traces, in words for a message.
        package: where to get the library of the interface, in words for a message.
        clock: first words of the line about the uncertainty of times; needed if the times come from another clock than
            ms-profiler's.
        covers: options that have an effect only if this interface records.
        files: whether the interface writes its own files into the result directory.
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
        """Return what this interface records, in words for messages, for example "kernels of the GPU"."""
        return f"kernels of the {self.activity}"

    def tracing(self, recorder: Recorder, host: "Host | None" = None) -> Tracing | None:
        """Return the object that records the device; None if recording is impossible.

        Args:
            recorder: the recorder that receives the records.
            host: the session; None if this process only tests the interface.
        """
        return recorder.tracing(self.source)

    def serves(self, recordings: Sequence[Options]) -> bool:
        """Return whether this interface has the data that the options of these recordings request.

        If a device has several interfaces, ms-profiler uses the first one for which this is true.

        Args:
            recordings: the options of each recording.
        """
        return True

    def reason(self, recordings: Sequence[Options]) -> str:
        """Return why ms-profiler chose this interface for its device; empty if the device has no other interface.

        Args:
            recordings: the options of each recording.
        """
        return ""

    @abstractmethod
    def libraries(self) -> list[str]:
        """Return the possible paths of the interface's library, in the order in which to try them; load nothing."""

    @abstractmethod
    def missing(self) -> str:
        """Return why there is no driver for the device, and the remedy; empty if there is one. May load the driver."""

    @abstractmethod
    def devices(self) -> tuple[int, str]:
        """Return the number of devices, and the reason if there is no device; this method initialises the driver."""

    @abstractmethod
    def owner(self, profiled: bool) -> str:
        """Return the name of the other profiler that uses the interface.

        Args:
            profiled: whether the script has used a profiler of its own.
        """

    @abstractmethod
    def kinds(self, recordings: "Sequence[Recording]") -> Kinds:
        """Return the kinds of records that at least one of these recordings needs."""

    def left_out(self, kinds: str) -> str:
        """Return why some kinds of records are missing although the interface records, and the remedy.

        Args:
            kinds: the missing kinds, in the words that `Tracing.record` returns.
        """
        return f"{self.name} refuses {kinds}"

    def left_to(self, host: "Host") -> str:
        """Return why this interface must not record in this process; empty if it may."""
        return ""

    def version(self, library: str, number: int) -> str:
        """Return the version of a library in the vendor's usual form; empty if unknown.

        Args:
            library: path of the library.
            number: the version number that the library itself reports; 0 if it reports none.
        """
        return str(number) if number else ""
