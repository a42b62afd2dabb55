"""Record saving and loading: files of `torch.save` and `torch.load`, and checkpoints of many ranks.

The functions that write and read the file are replaced, because the public functions warn in the name of their caller.
"""

from typing import TYPE_CHECKING

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import Target
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

SERIALIZATION = "torch.serialization"
SAVER = "torch.distributed.checkpoint.state_dict_saver"
LOADER = "torch.distributed.checkpoint.state_dict_loader"
#: (module, function, name of the span)
FILES = (
    (SERIALIZATION, "_open_zipfile_writer", "torch.save, opening"),
    (SERIALIZATION, "_save", "torch.save"),
    (SERIALIZATION, "_legacy_save", "torch.save"),
    (SERIALIZATION, "_load", "torch.load"),
    (SERIALIZATION, "_legacy_load", "torch.load"),
)
#: opening an existing file waits for its unwritten data; closing it writes the rest
CLOSING = "_open_zipfile_writer_file.__exit__"
#: functions in modules that few jobs import: the work of each rank for `save`, `async_save` and `load`
SAVING = ((SAVER, "_save_state_dict", "distributed checkpoint: save"),)
LOADING = ((LOADER, "_load_state_dict", "distributed checkpoint: load"),)


def _targets(host: "Host", functions: tuple[tuple[str, str, str], ...]) -> list[Target]:
    return [
        Target(module, name, closure=base.recorded(host, label, Category.CHECKPOINT), copies=True)
        for module, name, label in functions
    ]


def targets(host: "Host") -> list[Target]:
    """Declare the targets that write and read files."""
    closing = base.recorded(host, "torch.save, closing", Category.CHECKPOINT)
    return [*_targets(host, FILES), Target(SERIALIZATION, CLOSING, closure=closing)]


def saving(host: "Host") -> list[Target]:
    """Declare the targets that save checkpoints of many ranks."""
    return _targets(host, SAVING)


def loading(host: "Host") -> list[Target]:
    """Declare the targets that load checkpoints of many ranks."""
    return _targets(host, LOADING)
