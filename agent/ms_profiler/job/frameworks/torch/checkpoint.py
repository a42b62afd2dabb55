"""Record how long files are saved and loaded: with `torch.save`, `torch.load`, or as checkpoints of many ranks.

Only the internal functions that write and read the file are replaced. The public functions issue warnings for the line
of their caller; if we replaced them, the caller would be our code.
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
#: Method that closes the file, which writes the rest of the content. The opening has a span in `FILES`, because opening
#: an existing file waits until the earlier content of the file is written.
CLOSING = "_open_zipfile_writer_file.__exit__"
#: (module, function, name of the span): these functions do the work of one rank in `save`, `async_save` and `load`. Few
#: jobs import their modules.
SAVING = ((SAVER, "_save_state_dict", "distributed checkpoint: save"),)
LOADING = ((LOADER, "_load_state_dict", "distributed checkpoint: load"),)


def _targets(host: "Host", functions: tuple[tuple[str, str, str], ...]) -> list[Target]:
    return [
        Target(module, name, closure=base.recorded(host, label, Category.CHECKPOINT), copies=True)
        for module, name, label in functions
    ]


def targets(host: "Host") -> list[Target]:
    """Declare targets: the functions that write and read files."""
    closing = base.recorded(host, "torch.save, closing", Category.CHECKPOINT)
    return [*_targets(host, FILES), Target(SERIALIZATION, CLOSING, closure=closing)]


def saving(host: "Host") -> list[Target]:
    """Declare targets: the functions that save checkpoints of many ranks."""
    return _targets(host, SAVING)


def loading(host: "Host") -> list[Target]:
    """Declare targets: the functions that load checkpoints of many ranks."""
    return _targets(host, LOADING)
