"""Rows of a tf.data iterator that TensorFlow keeps until they are written (_tf_op/rows.cc): Python says how far to go, and sees no element."""

from __future__ import annotations

import ctypes
import functools
import logging
import os
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock._executor.collate import room_of
from penstock._executor.specs import RAGGED, Column, RowSpec

if TYPE_CHECKING:
    from penstock._executor.tf_checkpoints import Checkpoints


log = logging.getLogger("penstock")


class _State(ctypes.Structure):
    """PenstockRows of rows.h."""

    _fields_ = (
        ("id", ctypes.c_int64),
        ("want_rows", ctypes.c_uint64),
        ("want_bytes", ctypes.c_uint64),
        ("want_ns", ctypes.c_int64),
        ("count", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("ended", ctypes.c_uint64),
    )


class _Library:
    def __init__(self, path: str) -> None:
        import tensorflow as tf

        self.take = tf.load_op_library(path).penstock_take_rows
        functions = ctypes.CDLL(path)
        state, numbers = ctypes.POINTER(_State), ctypes.POINTER(ctypes.c_uint64)
        self.make = functions.penstock_tf_rows_make
        self.make.argtypes, self.make.restype = [ctypes.POINTER(ctypes.c_int64), ctypes.c_uint64], state
        self.drop = functions.penstock_tf_rows_drop
        self.drop.argtypes, self.drop.restype = [state], None
        self.within = functions.penstock_tf_rows_within
        self.within.argtypes, self.within.restype = [state, ctypes.c_uint64], ctypes.c_uint64
        self.lengths = functions.penstock_tf_rows_lengths
        self.lengths.argtypes, self.lengths.restype = [state, ctypes.c_uint64, numbers], None
        self.write = functions.penstock_tf_rows_write
        self.write.argtypes = [state, ctypes.c_uint64, ctypes.c_void_p, numbers, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint32)]
        self.write.restype = ctypes.c_int
        functions.penstock_tf_rows_bind.argtypes = [ctypes.c_void_p]
        if not functions.penstock_tf_rows_bind(_core.tf_abi()):
            raise OSError(f"{path} was made for another version")


@functools.cache
def _library() -> _Library | None:
    """None where it was not compiled: half a minute is too long for whoever waits for the first rows."""
    import tensorflow as tf

    from penstock._tf_op import build

    try:
        path = build.rows_library() if os.environ.get("PENSTOCK_TF_OP") != "0" else None
        return _Library(path) if path is not None else None
    except (build.CannotBuild, OSError, AttributeError, tf.errors.OpError) as error:  # of another version
        log.warning("elements of tf.data are handed over by way of Python, which is slower: penstock's library for them cannot be loaded: %s", error)
        return None


def can_hold(spec: RowSpec) -> bool:
    """Whether rows of these columns can wait there: dense tensors, of which the first dimension may differ from row to row."""
    return all(_fits(column) for column in spec.columns) and _library() is not None


def _fits(column: Column) -> bool:
    ragged = column.shape.count(RAGGED)
    return ragged == 0 or (ragged == 1 and column.shape[0] == RAGGED and column.dtype != "string")


class TensorRows:
    """What a Collator is to rows of Python, and their source as well."""

    def __init__(self, spec: RowSpec, components: list[int], iterator: Any, checkpoints: Checkpoints | None, start: int) -> None:
        """components: of each column, which tensor of the iterator's elements it is."""
        import tensorflow as tf

        library = _library()
        assert library is not None
        self._library = library
        self._pointer = library.make((ctypes.c_int64 * len(components))(*components), len(components))
        self._state = self._pointer.contents
        self._number = tf.constant(self._state.id, tf.int64)
        self._columns = len(components)
        self._buffers = sum(2 if column.dtype == "string" or RAGGED in column.shape else 1 for column in spec.columns)
        self._iterator = iterator
        self._checkpoints = checkpoints
        self._first = start  # seq of the first that waits

    def __del__(self) -> None:
        if hasattr(self, "_pointer"):
            self._library.drop(self._pointer)

    def __len__(self) -> int:
        return int(self._state.count)

    @property
    def bytes(self) -> int:
        return int(self._state.bytes)

    @property
    def ended(self) -> bool:
        return bool(self._state.ended)

    def take(self, rows: int, size: int, seconds: float) -> None:
        """Up to so many rows; it stops after one by which there are `size` bytes more, or the time is over."""
        state = self._state
        state.want_rows, state.want_bytes, state.want_ns = rows, size, int(seconds * 1e9)
        self._library.take(self._iterator._iterator_resource, self._number)
        if self._checkpoints is not None:
            self._checkpoints.passed(self._iterator, self._first + len(self))

    def cursor(self, row: int) -> tuple[int, int]:
        return self._first + row, 0

    def rows_within(self, limit: int) -> int:
        return max(1, int(self._library.within(self._pointer, room_of(limit, self._columns))))

    def lengths(self, n: int) -> list[int]:
        lengths = (ctypes.c_uint64 * self._buffers)()
        self._library.lengths(self._pointer, n, lengths)
        return list(lengths)

    def write(self, n: int, places: list[list[int]], block: memoryview) -> list[int]:
        """Writes the first n rows, and forgets them."""
        flat = [number for place in places for number in place]
        memory = ctypes.addressof(ctypes.c_char.from_buffer(block))
        crcs = (ctypes.c_uint32 * len(places))()
        if not self._library.write(self._pointer, n, memory, (ctypes.c_uint64 * len(flat))(*flat), len(places), crcs):
            raise ValueError("the worker's places for a block are not as long as its rows")
        self._first += n
        return list(crcs)
