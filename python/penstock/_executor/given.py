"""Rows as user code gave them.

Many fill one buffer again and again, and rows wait for their block while that code goes on: what could still change is copied at once. What cannot,
because nobody else holds it, is taken as it is where a copy would cost something.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator
from sys import getrefcount
from typing import Any

from penstock.ragged import Ragged

LARGE = 4096  # bytes: copying less costs no more than looking who holds it


def by(call: Callable[[Any], Any], argument: Any) -> Any:
    """What the function gives, as it is now."""
    row = call(argument)
    alone = getrefcount(row) <= _RETURNED
    return _kept(row, alone)


def from_source(rows: Iterable[Any]) -> Iterator[Any]:
    """What it gives is held where it comes from: by a generator's variable, a list."""
    return (_kept(row, False) for row in rows)


def _returned(call: Callable[[Any], Any], argument: Any) -> int:
    row = call(argument)
    return getrefcount(row)


def _held(container: Any) -> int:
    value = container[0]
    return getrefcount(value)


# How many references there are to a value that nobody else holds, counted as `by` and `_inside` do: it differs from one Python to the next.
_RETURNED = _returned(lambda _: object(), None)
_HELD = _held([object()])


def _inside(container: Any, at: Any, alone: bool) -> Any:
    value = container[at]
    alone = alone and getrefcount(value) <= _HELD
    return _kept(value, alone)


def _kept(value: Any, alone: bool) -> Any:
    """`alone`: nobody else holds it."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is dict:
        return {name: _inside(value, name, alone) for name in value}
    if isinstance(value, tuple):
        values = [_inside(value, i, alone) for i in range(len(value))]
        return kind._make(values) if hasattr(kind, "_make") else tuple(values)
    if isinstance(value, list):
        return [item if type(item) in _IMMUTABLE else _kept(item, False) for item in value]
    return _other_dict(value) if isinstance(value, dict) else _kept_array(value, alone)


_IMMUTABLE = frozenset({int, float, bool, str, bytes, type(None)})


def _other_dict(value: Any) -> Any:
    row = copy.copy(value)
    for name in value:
        row[name] = _kept(value[name], False)
    return row


def _kept_array(value: Any, alone: bool) -> Any:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return value if alone and value.nbytes >= LARGE and _owns(value) else value.copy()
    if torch is not None and isinstance(value, torch.Tensor):
        return value if alone and _tensor_owns(value) else value.detach().clone()
    if isinstance(value, Ragged):
        return Ragged(_kept(value.values, False), tuple(offsets.copy() for offsets in value.offsets), value.shape)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return value  # numpy's scalars, TensorFlow's and jax's tensors: they do not change


def _owns(array: Any) -> bool:
    """Its memory, or is the one view of an array that does."""
    base = array.base
    if base is None:
        return True
    return type(base) is type(array) and base.base is None and getrefcount(base) <= _HELD


def _tensor_owns(tensor: Any) -> bool:
    """Memory of others, like numpy's, cannot be resized."""
    return not tensor._is_view() and not tensor.is_sparse and tensor.untyped_storage().resizable()
