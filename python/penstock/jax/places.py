"""Which of how many consumers of which job a process is."""

from __future__ import annotations

from typing import Any

import jax

from penstock._check import wrong
from penstock._loader import Place
from penstock.errors import Invalid


def find(sharding: Any, job_name: str | None) -> Place:
    if sharding is not None and not isinstance(sharding, jax.sharding.Sharding):
        raise wrong("DataLoader: sharding", sharding, "a jax.sharding.Sharding, such as NamedSharding(mesh, PartitionSpec('data'))")
    if sharding is None or jax.process_count() == 1:
        return Place.among(job_name)
    holders = _holders(sharding)
    index, mirror = next((i, group.index(jax.process_index())) for i, group in enumerate(holders) if jax.process_index() in group)
    return Place.mirror(job_name, index, len(holders), mirror, len(holders[index]))


def _holders(sharding: Any) -> list[list[int]]:
    """Processes by the rows that their devices hold, in the order of the rows."""
    rows = len(sharding.device_set)  # any number that divides evenly
    try:
        slices = sharding.devices_indices_map((rows,))
    except ValueError as error:
        raise Invalid(f"sharding={sharding} cannot divide the first dimension alone ({error}); name a sharding of the batch's rows") from error
    held: dict[int, set[tuple[int, int]]] = {}
    for device, (part,) in slices.items():
        held.setdefault(device.process_index, set()).add((part.start or 0, rows if part.stop is None else part.stop))
    groups: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for process in sorted(held):
        groups.setdefault(tuple(sorted(held[process])), []).append(process)
    if jax.process_index() not in held:
        raise Invalid("sharding= names no device of this process; make a loader only where it does")
    if sum(len(parts) for parts in groups) != len(set().union(*groups)):
        raise Invalid(f"sharding={sharding}: processes share some of their rows and not others; lay the mesh so that they share all or none")
    return [groups[parts] for parts in sorted(groups)]
