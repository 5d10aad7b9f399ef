"""What `Dataset.parse_example` looks for in a tf.Example."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock._check import INT64, wrong
from penstock._check import shape as check_shape
from penstock.errors import Invalid

DTypeLike = Any  # a name ("int64", "string"), a numpy dtype, or bytes/str/int/float


@dataclass(frozen=True)
class Fixed:
    """A feature with the same number of values in each example. `default` stands in where it is missing."""

    dtype: DTypeLike
    shape: Sequence[int] = ()
    default: Any = None

    def __post_init__(self) -> None:
        dtype_name(self.dtype)
        object.__setattr__(self, "shape", check_shape("Fixed: shape", self.shape))
        if self.default is not None and dtype_name(self.dtype) in _STORED:
            _default("Fixed", dtype_name(self.dtype), list(self.shape), self.default)


@dataclass(frozen=True)
class Var:
    """A feature with any number of values, none included: a ragged column."""

    dtype: DTypeLike

    def __post_init__(self) -> None:
        dtype_name(self.dtype)


_NAMES = {bytes: "string", str: "string", int: "int64", float: "float32", bool: "bool"}
_STORED = ("int64", "float32", "string")  # what a tf.Example can hold


def dtype_name(dtype: DTypeLike) -> str:
    """Our name of a dtype, however it was given."""
    if isinstance(dtype, str):
        return "string" if dtype == "bytes" else dtype
    if isinstance(dtype, type) and dtype in _NAMES:
        return _NAMES[dtype]
    import numpy as np

    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise wrong("dtype", dtype, "a name such as 'int64', 'float32' or 'string', or a numpy dtype") from None
    return "string" if kind.kind in "SUO" else kind.name


def to_attr(name: str, feature: Fixed | Var | DTypeLike) -> dict[str, Any]:
    """The plan's form of a feature; a bare dtype is a scalar."""
    if not isinstance(feature, (Fixed, Var)):
        feature = Fixed(feature)
    dtype = dtype_name(feature.dtype)
    if dtype not in _STORED:
        raise Invalid(f"feature {name!r} has dtype {dtype}; a tf.Example holds int64, float32 or string")
    if isinstance(feature, Var):
        return {"name": name, "dtype": dtype, "var": True}
    shape = list(feature.shape)
    attr: dict[str, Any] = {"name": name, "dtype": dtype, "shape": shape, "var": False}
    if feature.default is not None:
        attr["default"] = _default(f"feature {name!r}", dtype, shape, feature.default)
    return attr


def _default(name: str, dtype: str, shape: list[int], default: Any) -> list[Any]:
    import numpy as np

    value_of, expected = _VALUES[dtype]
    try:
        values = [value_of(value) for value in np.asarray(default, dtype=object).reshape(-1).tolist()]
    except (TypeError, ValueError, OverflowError):
        raise wrong(f"{name}: default", default, expected) from None
    count = int(np.prod(shape, dtype=np.int64))
    if len(values) not in (1, count):
        raise Invalid(f"{name} has shape {tuple(shape)} but a default of {len(values)} values; give {count}, or one for all")
    return values


def _whole(value: Any) -> int:
    if value != int(value) or not -INT64 - 1 <= value <= INT64:
        raise ValueError
    return int(value)


def _float(value: Any) -> float:
    if math.isfinite(value) and abs(value) > _FLOAT32:
        raise ValueError
    return float(value)


def _string(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(memoryview(value))


_FLOAT32 = (2 - 2**-23) * 2.0**127
_VALUES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "int64": (_whole, "int64 values: whole numbers from -2**63 to 2**63-1"),
    "float32": (_float, "float32 values: numbers up to 3.4e38"),
    "string": (_string, "string values: str or bytes"),
}
