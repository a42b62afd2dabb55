"""Record how long files are saved and loaded: by `torch.save`, `torch.load`, safetensors, or for many ranks.

ms-profiler replaces only the internal functions of PyTorch that write and read the file, not the public ones. A public
function issues warnings that name the line of its caller. If it were replaced, its caller would be code of ms-profiler.
The public functions of safetensors issue no warnings.
"""

import sys
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
#: module and classes by which `async_save` copies the tensors in the calling thread; old versions have fewer classes
STAGING, STAGERS = "torch.distributed.checkpoint.staging", ("BlockingAsyncStager", "DefaultStager")
#: The package safetensors writes all files by one function. Its module for PyTorch imports this function by its name,
#: usually after ms-profiler has replaced it. The functions of this module also copy tensors from a device.
WRITER = "safetensors"
TENSORS = "safetensors.torch"
WRITING = ((WRITER, "serialize_file", "safetensors: write"),)
COPYING = ((TENSORS, "save_file", "safetensors: save"), (TENSORS, "load_file", "safetensors: load"))


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
    known = vars(sys.modules[STAGING]).keys() if STAGING in sys.modules else ()
    copied = base.recorded(host, "distributed checkpoint: copy", Category.CHECKPOINT)
    stagers = [Target(STAGING, f"{name}.stage", closure=copied) for name in STAGERS if name in known]
    return [*_targets(host, SAVING), *stagers]


def loading(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that load checkpoints of many ranks."""
    return _targets(host, LOADING)


def writing(host: "Host") -> list[Target]:
    """Return the function to wrap: the one by which safetensors writes a file."""
    return _targets(host, WRITING)


def copying(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that save and load tensors of PyTorch as files of safetensors."""
    return _targets(host, COPYING)
