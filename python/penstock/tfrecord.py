"""Writing TFRecord files of tf.Examples: small, for demos, tests and getting data in. Reading is `Dataset.from_tfrecord`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from penstock import _core
from penstock.errors import Invalid

Compression = Literal["none", "gzip", "zlib"]


def write_tfrecord(path: str | os.PathLike[str], rows: Iterable[Mapping[str, Any]], compression: Compression = "none") -> int:
    """Writes each row (a dict of numbers, strings, or lists of them) as a tf.Example; returns how many there were.

    Whole numbers become int64, others float, str and bytes strings.
    """
    writer = _core.TfRecordWriter.create(os.fspath(path), compression)
    count = 0
    for row in rows:
        writer.write(encode_example(row))
        count += 1
    writer.close()
    return count


def encode_example(row: Mapping[str, Any]) -> bytes:
    """A tf.Example: features, sorted by name so that equal rows are equal bytes."""
    entries = (_field(1, _field(1, name.encode()) + _field(2, _feature(name, row[name]))) for name in sorted(row))
    return _field(1, b"".join(entries))


def _feature(name: str, value: Any) -> bytes:
    import numpy as np

    values = value if isinstance(value, (list, tuple)) else [value]
    if all(isinstance(v, (str, bytes)) for v in values):
        if not values:
            return b""
        return _field(1, b"".join(_field(1, v.encode() if isinstance(v, str) else v) for v in values))
    array = np.asarray(value).reshape(-1)
    if array.dtype.kind in "SUO":
        return _feature(name, array.tolist())
    if array.dtype.kind in "iub":
        return _field(3, _field(1, b"".join(_varint(int(v) & 0xFFFFFFFFFFFFFFFF) for v in array)))
    if array.dtype.kind == "f":
        return _field(2, _field(1, array.astype("<f4").tobytes()))
    raise Invalid(f"write_tfrecord: feature {name!r} holds {array.dtype}; a tf.Example holds whole numbers, floats and strings")


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
