"""The frameworks that can be hooked, each a folder beside this file.

Importing this package imports neither a framework nor `typing` (3 ms), because every interpreter imports it while
the variable is set.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ms_profiler.job.frameworks.base import Plugin


def _mindspore() -> "Plugin":
    from ms_profiler.job.frameworks.mindspore.plugin import MindSpore

    return MindSpore()


def _torch() -> "Plugin":
    from ms_profiler.job.frameworks.torch.plugin import PyTorch

    return PyTorch()


#: name of a framework's top-level module -> function that makes its plugin
PLUGINS: "dict[str, Callable[[], Plugin]]" = {"mindspore": _mindspore, "torch": _torch}
