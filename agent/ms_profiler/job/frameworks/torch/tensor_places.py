"""Note the addresses of parameters, their gradients and the states of optimizers, after some steps.

The records of memory blocks do not name tensors. With these addresses, the analysis finds the tensor of a block.
Activations need no address: they exist for less than a step, and their blocks are allocated during a forward pass.
"""

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ms_profiler import paths
from ms_profiler.job.frameworks import side_file, trees
from ms_profiler.job.frameworks.torch import optimizers, tensors
from ms_profiler.job.frameworks.torch.allocator import OPTION
from ms_profiler.job.sources import NEVER
from ms_profiler.store import layout
from ms_profiler.store.names import GRADIENT, PARAMETER, STATE

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: addresses are noted after step FIRST, then after step FIRST * FACTOR, and so on
FIRST, FACTOR = 1, 4
#: largest number of parameters whose addresses are read after a step; reading an address takes 0.2 us
MOST: Final = 50_000
#: kind of a tensor, for example a parameter; path of its module; address of its content
Place = tuple[str, str, int]


class Places:
    """Note addresses of tensors.

    Args:
        host: the session, which stores the addresses.
        modules: a function that yields the path and the object of each module.
        parameters: name of the attribute in which a module holds its parameters.
    """

    def __init__(self, host: "Host", modules: Callable[[], Iterator[tuple[str, Any]]], parameters: str) -> None:
        self._host = host
        self._modules, self._parameters = modules, parameters
        self._next = FIRST

    def stepped(self, count: int) -> tuple[int, bool]:
        """Note the addresses after the steps 1, 4, 16 and so on; `host.Host.at_step` describes argument and result."""
        host = self._host
        if not (host.asks(OPTION) and host.wants("CPU")) or host.home is None:
            return NEVER, False
        if count < self._next or not host.steps.recording:
            return max(self._next, count + 1), False
        self._next = max(count, FIRST) * FACTOR
        self._write(host.home.folder, list(self._found()))
        return self._next, True

    def _found(self) -> Iterator[Place]:
        places: dict[int, str] = {}
        for path, module in self._modules():
            for parameter in trees.held_in(module, self._parameters).values():
                if id(parameter) in places or len(places) > MOST:
                    continue
                places[id(parameter)] = path
                yield PARAMETER, path, _address(parameter)
                if tensors.read(parameter, "is_leaf"):
                    yield GRADIENT, path, _address(tensors.read(parameter, "grad"))
        for held in list(optimizers.seen.values()):
            states = trees.attributes(held()).get("state")
            for parameter, state in list(dict.items(states)) if isinstance(states, dict) else []:
                for value in list(dict.values(state)) if isinstance(state, dict) else []:
                    yield STATE, places.get(id(parameter), ""), _address(value)

    def _write(self, folder: str, found: list[Place]) -> None:
        found = [place for place in found if place[2]]
        if not found or not paths.isdir(folder):
            return
        names = {path: number for number, path in enumerate(dict.fromkeys(path for _, path, _ in found))}
        rows = [(kind, names[path], address) for kind, path, address in found]
        content = {"time_ns": self._host.recorder.now(), "paths": list(names), "tensors": rows}
        side_file.write(self._host, layout.place_path(folder, len(layout.places(folder))), content)


def _address(tensor: Any) -> int:
    """Return the address of a tensor's content; 0 if it has no content, or if its class is not PyTorch's own."""
    torch = sys.modules["torch"]
    if type(tensor) not in (torch.nn.Parameter, torch.Tensor):
        return 0
    with torch._C.DisableTorchFunction():  # otherwise PyTorch could call code of the script (a torch function mode)
        try:
            # `data_ptr` would copy the content of a copy-on-write tensor
            read = getattr(torch._C, "_data_address", torch._C.TensorBase.data_ptr)
            return int(read(tensor))
        except RuntimeError:  # the tensor has no storage
            return 0
