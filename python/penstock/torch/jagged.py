"""Jagged: rows of differing length as torch tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from penstock.errors import Invalid

if TYPE_CHECKING:
    from penstock.ragged import Ragged


class Jagged:
    """A column whose rows differ in length: all `values` one after the other, and int64 `offsets`, one more than there are rows.

    Both lie over the memory that the worker wrote. Where rows are ragged in several dimensions, `inner` has the offsets of the inner ones.
    """

    __slots__ = ("inner", "offsets", "values")

    def __init__(self, values: torch.Tensor, offsets: torch.Tensor, inner: tuple[torch.Tensor, ...] = ()) -> None:
        self.values = values
        self.offsets = offsets
        self.inner = inner

    @classmethod
    def from_ragged(cls, ragged: Ragged) -> Jagged:
        if ragged.shape[0] is not None:
            raise Invalid(
                f"rows of shape {ragged.shape} are ragged behind a fixed dimension, which torch has no form for; padded_batch makes them dense"
            )
        outer, *inner = (torch.from_numpy(offsets) for offsets in ragged.offsets)
        return cls(torch.from_numpy(ragged.values), outer, tuple(inner))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> torch.Tensor:
        self._check_one_level("a row")
        row = range(len(self))[row]
        return self.values[int(self.offsets[row]) : int(self.offsets[row + 1])]

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (self[row] for row in range(len(self)))

    @property
    def lengths(self) -> torch.Tensor:
        return self.offsets.diff()

    def to_nested(self) -> torch.Tensor:
        """torch's nested tensor in the jagged layout, over the same memory."""
        self._check_one_level("to_nested")
        nested: Any = torch.nested
        tensor: torch.Tensor = nested.nested_tensor_from_jagged(self.values, offsets=self.offsets)
        return tensor

    def to(self, device: Any, non_blocking: bool = False) -> Jagged:
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Jagged:
        return self.map(lambda tensor: tensor.pin_memory())

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Jagged:
        """With each of its tensors changed."""
        return Jagged(change(self.values), change(self.offsets), tuple(change(offsets) for offsets in self.inner))

    def _check_one_level(self, what: str) -> None:
        if self.inner:
            raise Invalid(f"{what}: these rows are ragged in {1 + len(self.inner)} dimensions; use values, offsets and inner")

    def __repr__(self) -> str:
        return f"Jagged({len(self)} rows, values {tuple(self.values.shape)} of {self.values.dtype})"


def keyed_jagged(columns: dict[str, Jagged]) -> Any:
    """torchrec's KeyedJaggedTensor of several jagged columns; torchrec must be installed."""
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    return KeyedJaggedTensor(
        keys=list(columns),
        values=torch.cat([column.values for column in columns.values()]),
        lengths=torch.cat([column.lengths for column in columns.values()]),
    )
