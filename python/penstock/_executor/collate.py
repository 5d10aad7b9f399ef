"""Rows of user code as the buffers of a block: kept as they came until the block's memory is there, then written into it once."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any, NamedTuple

from penstock import _columns
from penstock._executor import casts
from penstock._executor.failures import CodeError
from penstock._executor.specs import RAGGED, Column, RowSpec, to_numpy
from penstock.ragged import Ragged

CURSOR_BYTES = 16
OFFSET_BYTES = 8
ALIGN = 64
_COPIED_ALONE = 4096  # bytes: larger rows are copied one by one; of small ones most of the time would be spent on the way


class Flat(NamedTuple):
    """A row of a ragged column as it lies in buffers: lengths at each level (a string's own left out), and values, whose dimensions behind the first
    are `inner`.
    """

    counts: list[list[int]]
    values: Any
    inner: tuple[int, ...]


class _Leaf:
    """The rows of one column. `add` returns the bytes that the row takes."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.rows: list[Any] = []

    def misfit(self, what: str) -> CodeError:
        name = self.column.name or "the row"
        dims = ", ".join("ragged" if d == RAGGED else str(d) for d in self.column.shape)
        return CodeError(
            f"{name} should be {self.column.dtype}[{dims}], but is {what}; "
            "rows that differ in ways the first ones did not show need a spec= that says so"
        )

    def cast(self, value: Any) -> Any:
        """As an array of the column's dtype; only where no value is lost."""
        try:
            array = to_numpy(value)
        except ValueError as error:
            raise self.misfit(f"a list whose parts are not equally long ({error})") from None
        dtype = _columns.numpy_dtype(self.column.dtype)
        try:
            return array if array.dtype == dtype else casts.converted(array, dtype)
        except casts.Lost as lost:
            raise self.misfit(str(lost)) from None


class _Scalars(_Leaf):
    def __init__(self, column: Column) -> None:
        super().__init__(column)
        self.dtype = _columns.numpy_dtype(column.dtype)

    def add(self, value: Any) -> int:
        if getattr(value, "dtype", None) == self.dtype and getattr(value, "shape", None) == ():
            self.rows.append(value)
        else:
            array = self.cast(value)
            if array.shape != ():
                raise self.misfit(f"of shape {array.shape}")
            self.rows.append(array[()])
        return int(self.dtype.itemsize)

    def lengths(self, n: int) -> list[int]:
        return [n * self.dtype.itemsize]

    def write(self, n: int, buffers: list[Any]) -> None:
        import numpy as np

        np.frombuffer(buffers[0], self.dtype)[:] = self.rows[:n]
        del self.rows[:n]


class _Dense(_Leaf):
    def __init__(self, column: Column) -> None:
        super().__init__(column)
        self.dtype = _columns.numpy_dtype(column.dtype)
        self.row_bytes = int(self.dtype.itemsize)
        for d in column.shape:
            self.row_bytes *= d

    def add(self, value: Any) -> int:
        array = value if self._fits(value) else self.cast(value)
        if array.shape != self.column.shape:
            raise self.misfit(f"of shape {tuple(array.shape)}")
        self.rows.append(array)
        return self.row_bytes

    def _fits(self, value: Any) -> bool:
        import numpy as np

        return type(value) is np.ndarray and value.dtype == self.dtype

    def lengths(self, n: int) -> list[int]:
        return [n * self.row_bytes]

    def write(self, n: int, buffers: list[Any]) -> None:
        import numpy as np

        if self.row_bytes:
            places = np.frombuffer(buffers[0], self.dtype).reshape(n, *self.column.shape)
            if self.row_bytes >= _COPIED_ALONE:
                for place, row in zip(places, self.rows):
                    place[...] = row
            else:
                np.stack(self.rows[:n], out=places)
        del self.rows[:n]


class _Strings(_Leaf):
    def add(self, value: Any) -> int:
        self.rows.append(_to_bytes(self, value))
        return len(self.rows[-1]) + OFFSET_BYTES

    def lengths(self, n: int) -> list[int]:
        return [(n + 1) * OFFSET_BYTES, sum(map(len, self.rows[:n]))]

    def write(self, n: int, buffers: list[Any]) -> None:
        _write_offsets([len(row) for row in self.rows[:n]], buffers[0])
        buffers[1][:] = b"".join(self.rows[:n])
        del self.rows[:n]


class _Vectors(_Leaf):
    """One ragged dimension, at the front."""

    def __init__(self, column: Column) -> None:
        super().__init__(column)
        self.dtype = _columns.numpy_dtype(column.dtype)

    def add(self, value: Any) -> int:
        array = self.cast(value.values if isinstance(value, Flat) else value)
        if array.shape != (0,) and (array.ndim != len(self.column.shape) or (array.shape[1:] != self.column.shape[1:] and array.size)):
            raise self.misfit(f"of shape {tuple(array.shape)}")
        self.rows.append(array.reshape(len(array), *self.column.shape[1:]))
        return int(array.nbytes) + OFFSET_BYTES

    def lengths(self, n: int) -> list[int]:
        return [(n + 1) * OFFSET_BYTES, sum(row.nbytes for row in self.rows[:n])]

    def write(self, n: int, buffers: list[Any]) -> None:
        import numpy as np

        _write_offsets([len(row) for row in self.rows[:n]], buffers[0])
        if len(buffers[1]):
            np.concatenate(self.rows[:n], out=np.frombuffer(buffers[1], self.dtype).reshape(-1, *self.column.shape[1:]))
        del self.rows[:n]


class _Nested(_Leaf):
    """Any number of ragged dimensions, strings among them: a row is its lengths, level by level, and its values."""

    def __init__(self, column: Column) -> None:
        super().__init__(column)
        self.string = column.dtype == "string"
        self.levels = column.shape.count(RAGGED) + self.string
        self.dtype = _columns.numpy_dtype("uint8" if self.string else column.dtype)

    def add(self, value: Any) -> int:
        counts: list[list[int]] = [[] for _ in range(self.levels)]
        parts: list[Any] = []
        if not isinstance(value, (Ragged, Flat, list, tuple)):
            value = _as_flat(to_numpy(value), self.column.shape)
        if isinstance(value, Flat):
            counts, parts = self._take(value)
        else:
            self._walk(value, 0, 0, counts, parts)
        size = sum(len(part) if self.string else part.nbytes for part in parts)
        self.rows.append((counts, parts, size))
        return size + sum(map(len, counts)) * OFFSET_BYTES

    def lengths(self, n: int) -> list[int]:
        rows = self.rows[:n]
        offsets = [(sum(len(counts[level]) for counts, _, _ in rows) + 1) * OFFSET_BYTES for level in range(self.levels)]
        return [*offsets, sum(size for _, _, size in rows)]

    def write(self, n: int, buffers: list[Any]) -> None:
        import numpy as np

        rows = self.rows[:n]
        for level in range(self.levels):
            _write_offsets([count for counts, _, _ in rows for count in counts[level]], buffers[level])
        parts = [part for _, parts, _ in rows for part in parts]
        if self.string:
            buffers[-1][:] = b"".join(parts)
        elif len(buffers[-1]):
            np.concatenate(parts, out=np.frombuffer(buffers[-1], self.dtype))
        del self.rows[:n]

    def _take(self, flat: Flat) -> tuple[list[list[int]], list[Any]]:
        counts = list(flat.counts)
        slots = flat.values.shape[0] if flat.values.ndim else 1
        for dimension, length in zip(flat.inner, flat.values.shape[1:]):
            if dimension == RAGGED:
                counts.append([length] * slots)
            elif dimension != length:
                raise self.misfit(f"{length} long in one of its last dimensions")
            slots *= length
        if self.string:
            parts = [_to_bytes(self, item) for item in flat.values.reshape(-1).tolist()]
            counts.append([len(part) for part in parts])
        else:
            parts = [self.cast(flat.values).reshape(-1)]
        if len(counts) != self.levels:
            raise self.misfit(f"ragged at {len(counts)} levels")
        return counts, parts

    def _walk(self, value: Any, dim: int, level: int, counts: list[list[int]], parts: list[Any]) -> None:
        shape = self.column.shape
        if dim == len(shape) and self.string:
            parts.append(_to_bytes(self, value))
            counts[level].append(len(parts[-1]))
            return
        if not self.string and RAGGED not in shape[dim:]:
            array = self.cast(value)
            if array.shape != shape[dim:]:
                raise self.misfit(f"of shape {tuple(array.shape)} in its last dimensions")
            parts.append(array.reshape(-1))
            return
        if not isinstance(value, (Ragged, list, tuple)):
            value = to_numpy(value)
        length = len(value)
        if shape[dim] == RAGGED:
            counts[level].append(length)
            level += 1
        elif length != shape[dim]:
            raise self.misfit(f"{length} long in dimension {dim}")
        if not self.string and RAGGED not in shape[dim + 1 :] and not isinstance(value, Ragged):
            array = self.cast(value) if length else self.cast([]).reshape(0, *shape[dim + 1 :])
            if array.shape[1:] != shape[dim + 1 :]:
                raise self.misfit(f"of shape {tuple(array.shape)} in its last dimensions")
            parts.append(array.reshape(-1))
            return
        for item in value:
            self._walk(item, dim + 1, level, counts, parts)


def _as_flat(array: Any, shape: tuple[int, ...]) -> Any:
    """An array as a row of a column with unknown dimensions; where it has others, it is walked, and told."""
    if array.ndim != len(shape) or array.ndim == 0 or array.dtype.kind == "U":
        return array.tolist() if array.dtype.kind == "U" else array
    counts = [[array.shape[0]]] if shape[0] == RAGGED else []
    if shape[0] not in (RAGGED, array.shape[0]):
        return array
    return Flat(counts, array, shape[1:])


def _to_bytes(leaf: _Leaf, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        return _to_bytes(leaf, item())
    raise leaf.misfit(type(value).__name__)


def _write_offsets(counts: list[int], buffer: Any) -> None:
    import numpy as np

    offsets = np.frombuffer(buffer, np.int64)
    offsets[0] = 0
    np.cumsum(np.array(counts, dtype=np.int64), out=offsets[1:])


def _leaf(column: Column) -> Any:
    ragged = column.shape.count(RAGGED)
    if column.dtype == "string":
        return _Strings(column) if not column.shape else _Nested(column)
    if ragged == 0:
        return _Dense(column) if column.shape else _Scalars(column)
    return _Vectors(column) if ragged == 1 and column.shape[0] == RAGGED else _Nested(column)


def room_of(limit: int, columns: int) -> int:
    """For rows, in a block of so many bytes with its head."""
    return limit - ALIGN * (4 + 3 * columns)


class Collator:
    """Rows with their cursors (seq, child), column by column."""

    def __init__(self, spec: RowSpec, keeps_rows: bool) -> None:
        self.spec = spec
        self.keeps_rows = keeps_rows
        self.leaves = [_leaf(column) for column in spec.columns]
        self.cursors: list[tuple[int, int]] = []
        self.sizes: list[int] = []
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.cursors)

    def add(self, cursor: tuple[int, int], row: Any) -> None:
        values = self.spec.leaves(row)
        size = 0
        done = 0
        try:
            for leaf, value in zip(self.leaves, values):
                size += leaf.add(value)
                done += 1
        except BaseException:
            for leaf in self.leaves[:done]:
                leaf.rows.pop()
            raise
        self.cursors.append(cursor)
        self.sizes.append(size)
        self.bytes += size

    def rows_within(self, limit: int) -> int:
        """How many rows fit, with the block's head; at least one."""
        room = room_of(limit, len(self.leaves))
        if self.bytes + (0 if self.keeps_rows else CURSOR_BYTES * len(self)) <= room:
            return len(self)
        extra = 0 if self.keeps_rows else CURSOR_BYTES
        return max(1, bisect_right(list(accumulate(size + extra for size in self.sizes)), room))

    def lengths(self, n: int) -> list[int]:
        return [length for leaf in self.leaves for length in leaf.lengths(n)]

    def cursor(self, row: int) -> tuple[int, int]:
        return self.cursors[row]

    def write(self, n: int, places: list[list[int]], block: memoryview) -> list[int]:
        """Writes the first n rows, and forgets them. CRC-32C of the buffers, where it was taken: none."""
        import numpy as np

        buffers = [block[offset : offset + length] for offset, length in places]
        at = 0
        if not self.keeps_rows:
            cursors = np.frombuffer(buffers[0], np.dtype([("seq", np.uint64), ("child", np.uint32), ("reserved", np.uint32)]))
            cursors["seq"] = [seq for seq, _ in self.cursors[:n]]
            cursors["child"] = [child for _, child in self.cursors[:n]]
            cursors["reserved"] = 0
            at = 1
        for leaf in self.leaves:
            count = len(leaf.lengths(0))
            leaf.write(n, buffers[at : at + count])
            at += count
        self.bytes -= sum(self.sizes[:n])
        del self.cursors[:n], self.sizes[:n]
        return []


def view(spec: RowSpec, block: memoryview) -> tuple[int, int, list[Any]]:
    """First seq, rows and leaves of a block without cursors; leaves are arrays over its memory."""
    import numpy as np

    head = np.frombuffer(block[:64], np.uint64)
    rows, first_seq = int(head[1]), int(head[2])
    count = int(np.frombuffer(block[28:32], np.uint32)[0])
    places = np.frombuffer(block[64 : 64 + 16 * count], np.uint64).reshape(count, 2).tolist()
    buffers = [block[offset : offset + length] for offset, length in places]
    leaves = []
    at = 0
    for column in spec.columns:
        levels = column.shape.count(RAGGED) + (column.dtype == "string")
        leaves.append(_view_column(column, rows, buffers[at : at + levels + 1]))
        at += levels + 1
    return first_seq, rows, leaves


def _view_column(column: Column, rows: int, buffers: list[Any]) -> Any:
    import numpy as np

    *bounds, values = buffers
    if column.dtype == "string":
        ends = np.frombuffer(bounds.pop(), np.int64).tolist()
        data = bytes(values)
        flat = np.empty(len(ends) - 1, dtype=object)
        flat[:] = [data[a:b] for a, b in zip(ends, ends[1:])]
    else:
        flat = np.frombuffer(values, _columns.numpy_dtype(column.dtype))
    if not bounds:
        return flat.reshape(rows, *column.shape)
    offsets = tuple(np.frombuffer(b, np.int64) for b in bounds)
    last = len(column.shape) - column.shape[::-1].index(RAGGED)
    shape = tuple(None if d == RAGGED else d for d in column.shape)
    return Ragged(flat.reshape(int(offsets[-1][-1]), *column.shape[last:]), offsets, shape)
