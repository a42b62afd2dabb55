"""Release the tracing interfaces of devices while the script's own profiler runs: an NPU serves only one profiler.

If two profilers use an NPU, it refuses the second one, or both lose records. So ms-profiler detaches its interface
before the script's profiler is prepared, and attaches the interface again after that profiler has ended.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


def targets(host: "Host", module: str, begins: str, ends: str) -> list[Target]:
    """Declare two functions of a framework's NPU profiler to wrap: ms-profiler releases its interfaces between them.

    Args:
        host: the session, which has the interfaces.
        module: name of the module of the framework's profiler.
        begins: dotted name, in the module, of the function that prepares the profiler.
        ends: dotted name, in the module, of the function that ends the profiler.
    """
    devices = host.devices

    def begin(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            with host.guard("releasing devices for the script's own profiler"):
                devices.release()
            return wrapped(*args, **kwargs)
        except BaseException:
            resume()
            raise

    def end(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return wrapped(*args, **kwargs)
        finally:
            try:
                resume()
            except BaseException:  # of a signal handler of the job: without a second call, nothing would resume
                resume()
                raise

    def resume() -> None:
        with host.guard("resuming after the script's own profiler"):
            devices.resume()

    return [Target(module, begins, begin), Target(module, ends, end)]
