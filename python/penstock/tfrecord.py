"""Writing TFRecord files of tf.Examples: small, for demos, tests and getting data in. Reading is `Dataset.from_tfrecord`."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from penstock import _core
from penstock._check import checked, one_of, wrong
from penstock.errors import Invalid

Compression = Literal["none", "gzip", "zlib"]


def _path(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise wrong(name, value, "a path")
    return os.fspath(value)


@checked(path=_path, compression=one_of("none", "gzip", "zlib"))
def write_tfrecord(path: str | os.PathLike[str], rows: Iterable[Mapping[str, Any]], compression: Compression = "none") -> int:
    """Writes each row (a dict of numbers, strings, or lists of them) as a tf.Example; returns how many there were.

    Whole numbers become int64, others float, str and bytes strings.
    """
    writer = _core.TfRecordWriter.create(os.fspath(path), compression)
    count = 0
    for row in rows:
        if not isinstance(row, Mapping):
            raise wrong("write_tfrecord: a row", row, "a dict of feature names to values")
        writer.write(encode_example(row))
        count += 1
    writer.close()
    return count


def encode_example(row: Mapping[str, Any]) -> bytes:
    """A tf.Example: features, sorted by name so that equal rows are equal bytes."""
    for name in row:
        if not isinstance(name, str):
            raise wrong("write_tfrecord: a feature's name", name, "a string")
    entries = (_field(1, _field(1, name.encode()) + _field(2, _feature(name, row[name]))) for name in sorted(row))
    return _field(1, b"".join(entries))


def _feature(name: str, value: Any) -> bytes:
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        value = value.tolist()
    values = value if isinstance(value, (list, tuple)) else [value]
    while values and isinstance(values[0], (list, tuple)):
        values = [item for row in values for item in row]
    if not values:
        return b""
    if all(isinstance(v, (str, bytes)) for v in values):
        return _field(1, b"".join(_field(1, v.encode() if isinstance(v, str) else v) for v in values))
    if all(isinstance(v, int) for v in values):
        return _field(3, _field(1, b"".join(_varint(_int64(name, v) & 0xFFFFFFFFFFFFFFFF) for v in values)))
    if all(isinstance(v, (int, float)) for v in values):
        return _field(2, _field(1, _floats(name, values)))
    kinds = sorted({type(v).__name__ for v in values})
    raise Invalid(f"write_tfrecord: feature {name!r} holds {', '.join(kinds)}; a tf.Example holds whole numbers, floats or strings")


def _int64(name: str, value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise wrong(f"write_tfrecord: feature {name!r}", value, "a whole number from -2**63 to 2**63-1: a tf.Example has int64")
    return value


def _floats(name: str, values: Sequence[float]) -> bytes:
    try:
        return struct.pack(f"<{len(values)}f", *values)
    except OverflowError:
        largest = max((v for v in values if abs(v) < math.inf), key=abs)
        raise wrong(f"write_tfrecord: feature {name!r}", largest, "a number that fits into 32 bits: a tf.Example has no larger floats") from None


def _field(number: int, data: bytes) -> bytes:
    """A length-delimited field of a protocol buffer."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
