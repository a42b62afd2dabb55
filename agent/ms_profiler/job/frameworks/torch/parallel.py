"""Describe the device meshes and process groups of a job, for the option `parallel_strategy`."""

import sys
import weakref
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.strategy import MOST
from ms_profiler.job.frameworks.torch import ranks
from ms_profiler.job.frameworks.torch.ranks import DISTRIBUTED

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MESHES = "torch.distributed.device_mesh"
#: device meshes that the job has made; some of them may no longer exist
_meshes: list[weakref.ref[Any]] = []


def read() -> dict[str, Any]:
    """Return the process groups and device meshes as a JSON object; empty if the job has no process group."""
    distributed = sys.modules.get(DISTRIBUTED)
    if distributed is None or not distributed.is_initialized():
        return {}
    found = {"groups": _groups(distributed), "meshes": _of_meshes()}
    return {name: entries for name, entries in found.items() if entries}


def _groups(distributed: Any) -> list[dict[str, Any]]:
    world = distributed._world
    return [
        {
            "name": str(name),
            "purpose": str(getattr(group, "group_desc", "")),
            "backend": str(world.pg_backend_config.get(group, "")),
            "ranks": sorted(world.pg_group_ranks[group]),
        }
        for group, name in list(world.pg_names.items())[:MOST]
        if group in world.pg_group_ranks
    ]


def _dimensions(mesh: Any) -> list[str]:
    return [str(name) for name in mesh.mesh_dim_names or range(mesh.mesh.ndim)]


def _of_meshes() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for held in _meshes:
        if (mesh := held()) is None:
            continue
        entry = {"device": str(mesh.device_type), "dimensions": _dimensions(mesh), "shape": list(mesh.mesh.shape)}
        if (entry := {**entry, "ranks": mesh.mesh.tolist()}) not in found:
            found.append(entry)
    return found


def _name_whole(host: "Host", mesh: Any) -> None:
    """Note the purpose of the group of all ranks if a one-dimensional device mesh uses it: PyTorch does not do so."""
    distributed = sys.modules[DISTRIBUTED]
    names, size = mesh.mesh_dim_names, mesh.mesh.numel()
    if names and len(names) == 1 and distributed.is_initialized() and size == distributed.get_world_size():
        found = ranks.groups(host)
        found.purpose(found.name(None), f"mesh_{names[0]}")


def meshes(host: "Host") -> list[Target]:
    """Return the constructor of device meshes, to wrap it, so that each mesh is noted."""

    def note(mesh: Any) -> None:
        if len(_meshes) < MOST:
            _meshes.append(weakref.ref(mesh))
            _name_whole(host, mesh)

    return [Target(MESHES, "DeviceMesh.__init__", closure=base.following(host, "noting a device mesh", note))]
