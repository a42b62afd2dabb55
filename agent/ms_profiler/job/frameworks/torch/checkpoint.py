"""Record how long files are saved and loaded: with `torch.save`, `torch.load`, or as checkpoints of many ranks.

ms-profiler replaces only the internal functions that write and read the file, not the public ones. A public function
issues warnings that name the line of its caller. If it were replaced, its caller would be code of ms-profiler.
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
#: (module, function, name of the span): internal functions of PyTorch that open, write or read a file
FILES = (
    (SERIALIZATION, "_open_zipfile_writer", "torch.save, opening"),
    (SERIALIZATION, "_save", "torch.save"),
    (SERIALIZATION, "_legacy_save", "torch.save"),
    (SERIALIZATION, "_load", "torch.load"),
    (SERIALIZATION, "_legacy_load", "torch.load"),
)
#: Method that closes the file and so writes the rest of the content. `FILES` also has the function that opens the file,
#: because this function may take long: an existing file opens only when its earlier content has been written.
CLOSING = "_open_zipfile_writer_file.__exit__"
#: (module, function, name of the span): functions that do the work of one rank in `save`, `async_save` and `load` of
#: `torch.distributed.checkpoint`. They are wrapped only when the job imports their modules, because few jobs do.
SAVING = ((SAVER, "_save_state_dict", "distributed checkpoint: save"),)
LOADING = ((LOADER, "_load_state_dict", "distributed checkpoint: load"),)


def _targets(host: "Host", functions: tuple[tuple[str, str, str], ...]) -> list[Target]:
    return [
        Target(module, name, closure=base.recorded(host, label, Category.CHECKPOINT), copies=True)
        for module, name, label in functions
    ]


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that write and read files."""
    closing = base.recorded(host, "torch.save, closing", Category.CHECKPOINT)
    return [*_targets(host, FILES), Target(SERIALIZATION, CLOSING, closure=closing)]


def saving(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that save checkpoints of many ranks."""
    return _targets(host, SAVING)


def loading(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that load checkpoints of many ranks."""
    return _targets(host, LOADING)
