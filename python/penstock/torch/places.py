"""Which of how many consumers of which job a rank is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from penstock._check import wrong
from penstock._loader import Place
from penstock.errors import Invalid

# As torch, torchtitan, Lightning and Accelerate name them. HSDP and expert parallelism have several, and ranks that differ in any read other rows.
_DATA_DIMENSIONS = {
    *("dp", "data", "data_parallel", "ddp", "fsdp", "replicate", "shard"),
    *("dp_replicate", "dp_shard", "dp_shard_mod_ep", "dp_shard_in_ep"),
}


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
    coordinate, sizes = mesh.get_coordinate(), list(mesh.mesh.shape)
    if coordinate is None:
        raise Invalid("mesh=: this rank is not in the mesh; make a loader only on ranks that are")
    data = _data_dimensions(list(mesh.mesh_dim_names or ()), len(sizes))
    others = [at for at in range(len(sizes)) if at not in data]
    index, consumers = _flattened(coordinate, sizes, data)
    mirror, mirrors = _flattened(coordinate, sizes, others)
    return Place.mirror(job_name, index, consumers, mirror, mirrors)


def _data_dimensions(names: list[str], dimensions: int) -> list[int]:
    """By which ranks read rows of their own; those that differ in others alone read the same."""
    if dimensions == 1:
        return [0]
    known = [at for at, name in enumerate(names) if name in _DATA_DIMENSIONS]
    if not known:
        raise Invalid(
            f"mesh=: none of its {dimensions} dimensions {tuple(names)} is known to be of data ({', '.join(sorted(_DATA_DIMENSIONS))}); "
            "name it so, or give group= the process group whose ranks read different rows, and a job_name= of its own to each such group"
        )
    return known


def _flattened(coordinate: Sequence[int], sizes: Sequence[int], dimensions: Sequence[int]) -> tuple[int, int]:
    """Which of how many ranks along these dimensions."""
    index = 0
    for at in dimensions:
        index = index * sizes[at] + coordinate[at]
    return index, math.prod(sizes[at] for at in dimensions)
