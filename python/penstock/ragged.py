"""Rows of differing length, as they lie in memory: values and offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Ragged:
    """A column whose rows differ in length.

    `values` holds all values, one after the other (with the fixed dimensions behind the last ragged one as its own).
    `offsets` has an int64 array for each ragged dimension, from the outside in: what TensorFlow calls row_splits.
    `shape` is that of a row, with None for a ragged dimension.
    """

    __slots__ = ("offsets", "shape", "values")

    def __init__(self, values: NDArray[Any], offsets: tuple[NDArray[np.int64], ...], shape: tuple[int | None, ...] = (None,)) -> None:
        if not isinstance(shape, tuple) or not isinstance(offsets, tuple):
            raise Invalid(f"Ragged: offsets={offsets!r} and shape={shape!r} are wrong; expected tuples, with offsets for each None in shape")
        if shape.count(None) != len(offsets):
            raise Invalid(f"shape {shape} has {shape.count(None)} ragged dimensions, but there are {len(offsets)} offsets")
        self.values = values
        self.offsets = offsets
        self.shape = shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def __len__(self) -> int:
        return (len(self.offsets[0]) - 1) // _product(self.shape[: self.shape.index(None)])

    def __getitem__(self, row: int) -> NDArray[Any] | Ragged:
        size = len(self)
        if not -size <= row < size:
            raise IndexError(f"row {row} of {size}")
        row %= size
        first = self.shape[0]
        if first is None:
            start, stop = int(self.offsets[0][row]), int(self.offsets[0][row + 1])
            return _rows(self.values, self.offsets[1:], self.shape[1:], start, stop)
        return _rows(self.values, self.offsets, self.shape[1:], row * first, (row + 1) * first)

    def __iter__(self) -> Iterator[NDArray[Any] | Ragged]:
        return (self[row] for row in range(len(self)))

    def to_list(self) -> list[Any]:
        return [row.to_list() if isinstance(row, Ragged) else row.tolist() for row in self]

    def __repr__(self) -> str:
        dims = ", ".join("ragged" if d is None else str(d) for d in self.shape)
        return f"Ragged({len(self)} rows of {self.values.dtype}[{dims}], {len(self.values)} values)"


def as_array(row: NDArray[Any] | Ragged) -> NDArray[Any] | Ragged:
    """The array that it is where its lengths agree; else itself. An array over the same memory."""
    import numpy as np

    if not isinstance(row, Ragged):
        return row
    dimensions = [len(row)]
    levels = iter(row.offsets)
    for dimension in row.shape:
        if dimension is not None:
            dimensions.append(dimension)
            continue
        lengths = np.diff(next(levels))
        if len(lengths) and (lengths != lengths[0]).any():
            return row
        dimensions.append(int(lengths[0]) if len(lengths) else 0)
    return row.values.reshape(dimensions)


def _rows(
    values: NDArray[Any], offsets: tuple[NDArray[np.int64], ...], shape: tuple[int | None, ...], start: int, stop: int
) -> NDArray[Any] | Ragged:
    """Rows [start, stop) of a column, as views; only offsets are rewritten, to begin at 0."""
    if not offsets:
        return values[start:stop]
    outer = _product(shape[: shape.index(None)])
    cut = []
    low, high = start * outer, stop * outer
    for level, bounds in enumerate(offsets):
        span = bounds[low : high + 1]
        cut.append(span - span[0])
        low, high = int(span[0]), int(span[-1])
        if level + 1 < len(offsets):
            between = _product(_between(shape, level))
            low, high = low * between, high * between
    return Ragged(values[low:high], tuple(cut), shape)


def _between(shape: tuple[int | None, ...], level: int) -> tuple[int | None, ...]:
    """The fixed dimensions between ragged dimension `level` and the next."""
    ragged = [i for i, dimension in enumerate(shape) if dimension is None]
    return shape[ragged[level] + 1 : ragged[level + 1]]


def _product(dimensions: tuple[int | None, ...]) -> int:
    product = 1
    for dimension in dimensions:
        product *= dimension or 0
    return product
