"""Lend the interfaces of devices to a profiler of the script's own: on an NPU there is room for one collector.

A second one is refused, or both lose records. So ours gives the interface back before the script's profiler is
prepared, and takes it again when that has ended.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


def targets(host: "Host", module: str, begins: str, ends: str) -> list[Target]:
    """Declare what is wrapped of a profiler.

    Args:
        host: whose interfaces are lent.
        module: of the profiler.
        begins: path in the module of the function that prepares it.
        ends: of the one that it has ended with.
    """
    devices = host.devices

    def begin(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with host.guard("making way for the script's own profiler"):
            devices.make_way()
        try:
            return wrapped(*args, **kwargs)
        except BaseException:
            go_on()
            raise

    def end(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return wrapped(*args, **kwargs)
        finally:
            go_on()

    def go_on() -> None:
        with host.guard("going on after the script's own profiler"):
            devices.go_on()

    return [Target(module, begins, begin), Target(module, ends, end)]
