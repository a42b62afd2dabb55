"""Record the saving and loading of checkpoints, and of other files with weights or graphs.

MindSpore's `_exec_save` writes the file. It runs inside `save_checkpoint`, on another thread, or in a child process.
"""

from typing import TYPE_CHECKING

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import Target
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

SERIALIZATION = "mindspore.train.serialization"
#: (module, function). Up to ten other modules import each of these functions by its name. ms-profiler replaces the
#: function there, too.
FUNCTIONS = (
    (SERIALIZATION, "save_checkpoint"),
    (SERIALIZATION, "_exec_save"),
    (SERIALIZATION, "load_checkpoint"),
    (SERIALIZATION, "load_checkpoint_async"),
    (SERIALIZATION, "load_param_into_net"),
    (SERIALIZATION, "export"),
    (SERIALIZATION, "load"),
    (SERIALIZATION, "ckpt_to_safetensors"),
    (SERIALIZATION, "safetensors_to_ckpt"),
    ("mindspore.parallel.checkpoint_transform", "load_distributed_checkpoint"),
    ("mindspore.parallel.checkpoint_transform", "transform_checkpoints"),
    ("mindspore.parallel.transform_safetensors", "unified_safetensors"),
)
NAMES = {"_exec_save": "write checkpoint", "load": "load MindIR"}
#: (module, method, name of the span): methods in which the job waits for another thread that loads or writes a file
METHODS = (
    (SERIALIZATION, "ParamDictFuture.result", "wait for load_checkpoint_async"),
    ("mindspore.train.callback._checkpoint", "ModelCheckpoint.end", "ModelCheckpoint.end"),
)


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that save or load files, or wait for a thread that does so."""

    def recorded(name: str) -> base.Closure:
        return base.recorded(host, name, Category.CHECKPOINT)

    return [
        *(Target(module, name, closure=recorded(NAMES.get(name, name)), copies=True) for module, name in FUNCTIONS),
        *(Target(module, path, closure=recorded(name)) for module, path, name in METHODS),
    ]
