"""Torch datasets whose rows workers prepare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import IterableDataset as TorchIterableDataset

from penstock.errors import Invalid
from penstock.torch import states
from penstock.torch.loader import DataLoader
from penstock.torch.tensors import row_of

if TYPE_CHECKING:
    from penstock.reader import Reader


def _check_read_here() -> None:
    if torch.utils.data.get_worker_info() is not None:
        raise Invalid("penstock's workers prepare this dataset already; give torch's DataLoader num_workers=0")


class IterableDataset(TorchIterableDataset[Any]):
    """A `DataLoader` as a torch dataset, for what insists on one: Lightning, the HF Trainer, Accelerate. It takes the same arguments.

    Batches are made already: give torch's own loader `batch_size=None`. It reads in the process that iterates it, which must be one: `num_workers=0`.
    """

    def __init__(self, dataset: Any, batch_size: int | None = None, shuffle: bool = False, **options: Any) -> None:
        super().__init__()
        self.loader = DataLoader(dataset, batch_size, shuffle, **options)

    def __iter__(self) -> Iterator[Any]:
        _check_read_here()
        return iter(self.loader)

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)

    def state_dict(self, at: Any = None, behind: int = 0) -> dict[str, Any]:
        return self.loader.state_dict(at=at, behind=behind)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state)


class DistributedDataset(TorchIterableDataset[Any]):
    """What `penstock.dds` gives for a torch dataset: its rows, as they were, from the job that all ranks share. Each iteration is one epoch."""

    def __init__(self, reader: Reader, types: Any) -> None:
        """types: `Dataset._value_types()` of what is read."""
        super().__init__()
        self.reader = reader
        self._types = types

    def __iter__(self) -> Iterator[Any]:
        _check_read_here()
        return (row_of(row, self._types) for row in self.reader)

    def state_dict(self, at: Any = None, behind: int = 0, scope: str = "job") -> dict[str, Any]:
        return states.pack(self.reader.state_dict(at=at, behind=behind, scope=scope))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.reader.load_state_dict(states.unpack(state))
