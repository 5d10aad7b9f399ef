"""Columns of a batch as numpy arrays over its memory, and the structure around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock import _core
from penstock.ragged import Ragged

Leaf = Any
Element = Any
Builder = Callable[[Sequence[Leaf]], Element]

_dtypes: dict[str, Any] = {}


def numpy_dtype(name: str) -> Any:
    """numpy's dtype for ours; strings are objects (bytes)."""
    dtype = _dtypes.get(name)
    if dtype is None:
        import numpy as np

        if name == "string":
            dtype = np.dtype(object)
        elif name == "bfloat16":
            import ml_dtypes

            dtype = np.dtype(ml_dtypes.bfloat16)
        else:
            dtype = np.dtype(name)
        _dtypes[name] = dtype
    return dtype


def arrays(batch: _core.Batch) -> list[Leaf]:
    """One array a column, without a copy; it holds the batch's memory as long as it lives.

    Strings become object arrays of bytes, which is a copy. Ragged columns become `Ragged`.
    """
    return [_array(batch.rows, *column) for column in batch.columns()]


def _array(rows: int, dtype: str, shape: tuple[int | None, ...], buffers: tuple[Any, ...]) -> Leaf:
    import numpy as np

    *bounds, values = buffers
    if dtype == "string":
        strings = _core.split_bytes(bounds.pop(), values)
        flat = np.empty(len(strings), dtype=object)
        flat[:] = strings
    else:
        kind = numpy_dtype(dtype)
        flat = np.ndarray(len(values) // kind.itemsize, kind, values)
    if not bounds:
        return flat.reshape(rows, *(d or 0 for d in shape))
    offsets = tuple(np.ndarray(len(b) // 8, np.int64, b) for b in bounds)
    inner = tuple(d or 0 for d in shape[len(shape) - shape[::-1].index(None) :])
    return Ragged(flat.reshape(int(offsets[-1][-1]), *inner), offsets, shape)


def builder(structure: Any) -> Builder:
    """A function from the leaves, left to right, to the nested element. None is a leaf, and () stands for None."""
    if structure is None:
        return lambda leaves: leaves[0]
    if all(child is None for child in (structure.values() if isinstance(structure, dict) else structure)):
        if isinstance(structure, dict):
            names = tuple(structure)
            return lambda leaves: dict(zip(names, leaves))
        return tuple

    def nested(leaves: Sequence[Leaf]) -> Element:
        return _fill(structure, iter(leaves))

    return nested


def _fill(structure: Any, leaves: Iterator[Leaf]) -> Element:
    if structure is None:
        return next(leaves)
    if structure == ():
        return None
    if isinstance(structure, dict):
        return {name: _fill(child, leaves) for name, child in structure.items()}
    return tuple(_fill(child, leaves) for child in structure)
