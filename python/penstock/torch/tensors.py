"""Elements of numpy arrays as torch's loops know them: tensors over the same memory, and rows of the types that the dataset gave.

`types` is `Dataset._value_types()`: dicts and tuples, with what a value was in Python at the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import torch

from penstock import _columns
from penstock._executor.rows import TEXT
from penstock.ragged import Ragged, as_array
from penstock.torch.jagged import Jagged


def batch_of(element: Any, types: Any) -> Any:
    """As torch's default_collate has it: tensors, and lists of str and bytes. Strings of other sources are object arrays of bytes."""
    return _typed(element, types, lambda leaf, kind: _text(leaf, kind) if kind in TEXT else _tensor(leaf))


def rows_of(element: Any, types: Any, arrays: Collection[int]) -> list[Any]:
    """A batch as the list of its rows, of the types that the dataset gave: what a collate_fn takes.

    arrays: places of columns whose rows are arrays, though they are ragged.
    """
    columns: list[Any] = []
    _typed(element, types, lambda leaf, kind: columns.append(_values(leaf, kind, len(columns) in arrays)))
    builder = _columns.builder(_structure(types))
    return [builder(row) for row in zip(*columns)]


def row_of(element: Any, types: Any) -> Any:
    """A row, of the types that the dataset gave."""
    return _typed(element, types, _value)


def converted(row: Any) -> Any:
    """As torch's default_convert has a row that is not batched: arrays as tensors, all else as it is."""
    return _map(row, lambda leaf: _tensor(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else leaf)


def map_tensors(element: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with each tensor changed, those of `Jagged` too."""

    def changed(leaf: Any) -> Any:
        if isinstance(leaf, Jagged):
            return leaf.map(change)
        return change(leaf) if isinstance(leaf, torch.Tensor) else leaf

    return _map(element, changed)


def _values(column: Any, kind: str, are_arrays: bool) -> Any:
    """Those of its rows."""
    if kind in TEXT:
        return _text(column, kind)
    if kind == "array":
        return map(as_array, column)
    if kind:
        return _list(column)
    if isinstance(column, Ragged):  # a row has a shape where the column has none
        return (_tensor(as_array(row) if are_arrays else row) for row in column)
    column = _tensor(column)
    return (column[i] for i in range(len(column)))


def _value(leaf: Any, kind: str) -> Any:
    if kind in TEXT:
        return _text(leaf, kind)
    if kind == "array":
        return as_array(leaf)
    return _list(leaf) if kind else _tensor(leaf)


def _list(leaf: Any) -> Any:
    """Lists of Python's numbers; a number, where it is one."""
    return leaf.to_list() if isinstance(leaf, Ragged) else leaf.tolist()


def _text(leaf: Any, kind: str) -> Any:
    values = leaf if isinstance(leaf, bytes) else _list(leaf)
    return _decoded(values) if kind == "str" else values


def _decoded(value: Any) -> Any:
    return [_decoded(item) for item in value] if isinstance(value, list) else value.decode()


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


def _typed(element: Any, types: Any, change: Callable[[Any, str], Any]) -> Any:
    if isinstance(types, dict):
        return {name: _typed(element[name], kind, change) for name, kind in types.items()}
    if isinstance(types, tuple):
        return tuple(_typed(child, kind, change) for child, kind in zip(element, types))
    return None if types is None else change(element, types)  # None has no type, and no column


def _structure(types: Any) -> Any:
    """As `RowSpec.structure` has it."""
    if isinstance(types, dict):
        return {name: _structure(child) for name, child in types.items()}
    if isinstance(types, tuple):
        return tuple(map(_structure, types))
    return () if types is None else None


def _map(element: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(element, dict):
        return {name: _map(child, change) for name, child in element.items()}
    if hasattr(element, "_make"):  # a namedtuple, of a collate_fn
        return element._make(_map(child, change) for child in element)
    if isinstance(element, (list, tuple)):
        return type(element)(_map(child, change) for child in element)
    return change(element)
