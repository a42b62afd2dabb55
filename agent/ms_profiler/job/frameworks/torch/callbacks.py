"""Find the script's callbacks in the loops of Lightning and transformers."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import trees
from ms_profiler.job.frameworks.callback_methods import CallbackMethods, listed

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: packages whose callbacks are not of the script
PACKAGES = ("transformers", "lightning", "pytorch_lightning", "torch")


def methods(host: "Host") -> CallbackMethods:
    """Return what wraps the methods of callbacks; both libraries call those whose names begin with `on_`.

    Args:
        host: the session, which records the calls.
    """
    return CallbackMethods(host, PACKAGES, lambda name: name.startswith("on_"))


def of_trainer(trainer: Any) -> Iterable[Any]:
    """Return the callbacks of a Trainer of transformers."""
    return listed(trees.attributes(trees.attributes(trainer).get("callback_handler")).get("callbacks"))


def of_fit_loop(loop: Any) -> Iterable[Any]:
    """Return the callbacks of a loop of Lightning; its module is one of them, because it has the same methods."""
    trainer = trees.attributes(trees.attributes(loop).get("trainer"))
    strategy = trees.attributes(trees.attributes(trainer.get("_accelerator_connector")).get("strategy"))
    module = strategy.get("_lightning_module")
    return [*listed(trainer.get("callbacks")), *([] if module is None else [module])]
