"""Elements of numpy arrays as elements of torch tensors, over the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock.ragged import Ragged
from penstock.torch.jagged import Jagged


def to_torch(element: Any) -> Any:
    """The same structure with tensors. Strings stay object arrays of bytes: torch has none."""
    return _map(element, _tensor)


def map_tensors(element: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with each tensor changed, those of `Jagged` too."""

    def changed(leaf: Any) -> Any:
        if isinstance(leaf, Jagged):
            return leaf.map(change)
        return change(leaf) if isinstance(leaf, torch.Tensor) else leaf

    return _map(element, changed)


def split_rows(element: Any) -> list[Any]:
    """A batch as the list of its rows: what a collate_fn takes."""
    first = element
    while isinstance(first, (dict, tuple)):
        first = next(iter(first.values())) if isinstance(first, dict) else first[0]
    return [_row(element, i) for i in range(len(first))]


def _row(element: Any, i: int) -> Any:
    return _map(element, lambda leaf: leaf[i])


def _tensor(leaf: Any) -> Any:
    if isinstance(leaf, Ragged):
        return leaf if leaf.values.dtype == object else Jagged.from_ragged(leaf)
    if isinstance(leaf, bytes):
        return leaf
    array = np.asarray(leaf)
    if array.dtype == object:
        return leaf
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _map(element: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(element, dict):
        return {name: _map(child, change) for name, child in element.items()}
    if hasattr(element, "_make"):  # a namedtuple, of a collate_fn
        return element._make(_map(child, change) for child in element)
    if isinstance(element, (list, tuple)):
        return type(element)(_map(child, change) for child in element)
    return change(element)
