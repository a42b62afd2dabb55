"""The frameworks whose functions ms-profiler can wrap, each a folder beside this file.

While MS_PROFILER_OPTIONS is set, every interpreter imports this package. So the package must be cheap to import. It
imports no framework, and not even `typing`, whose import takes 3 ms.
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
