"""Which of how many consumers of which job a rank is."""

from __future__ import annotations

import math
from typing import Any

import torch

from penstock._check import wrong
from penstock._loader import Place
from penstock.errors import Invalid

_DATA_DIMENSIONS = ("dp", "data", "dp_replicate")


def find(mesh: Any, group: Any, job_name: str | None) -> Place:
    if mesh is not None:
        if not (hasattr(mesh, "mesh_dim_names") and hasattr(mesh, "get_coordinate")):
            raise wrong("DataLoader: mesh", mesh, "a torch.distributed.device_mesh.DeviceMesh")
        return _in_mesh(mesh, job_name)
    index, consumers = (None, None) if group is None else _in_group(group)
    return Place.among(job_name, index, consumers)


def _in_group(group: Any) -> tuple[int, int]:
    if group is torch.distributed.GroupMember.NON_GROUP_MEMBER:
        raise Invalid("group=: this rank is not in the process group; make a loader only on ranks that are")
    if not isinstance(group, torch.distributed.ProcessGroup):
        raise wrong("DataLoader: group", group, "a process group, as torch.distributed.new_group makes it")
    return torch.distributed.get_rank(group), torch.distributed.get_world_size(group)


def _in_mesh(mesh: Any, job_name: str | None) -> Place:
    names = list(mesh.mesh_dim_names or ())
    data = next((names.index(name) for name in _DATA_DIMENSIONS if name in names), 0)
    coordinate, sizes = list(mesh.get_coordinate()), list(mesh.mesh.shape)
    index, consumers = coordinate.pop(data), sizes.pop(data)
    mirror = 0
    for at, size in zip(coordinate, sizes):
        mirror = mirror * size + at
    return Place.mirror(job_name, index, consumers, mirror, math.prod(sizes))
