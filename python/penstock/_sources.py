"""Arguments of sources, in the form that plans carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock._check import wrong
from penstock.errors import Invalid
from penstock.ragged import Ragged

if TYPE_CHECKING:
    from numpy.typing import NDArray


def arrays_attrs(arrays: Any) -> dict[str, Any]:
    """Columns with their bytes, and the structure around them."""
    leaves = list(_leaves(arrays, ""))
    if not leaves:
        raise Invalid("from_arrays: there are no arrays")
    columns = [_column(name, array) for name, array in leaves]
    rows = {name: column.pop("rows") for (name, _), column in zip(leaves, columns)}
    if len(set(rows.values())) > 1:
        lengths = ", ".join(f"{name or 'array'}: {count}" for name, count in rows.items())
        raise Invalid(f"from_arrays: arrays must be equally long, but have {lengths}")
    return {"columns": columns, "structure": _structure(arrays), "rows": next(iter(rows.values()))}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, child in value.items():
            if not isinstance(name, str):
                raise wrong(f"from_arrays: a name in {path or 'the dict'}", name, "a string")
            yield from _leaves(child, f"{path}/{name}" if path else name)
    elif isinstance(value, tuple):
        for i, child in enumerate(value):
            yield from _leaves(child, f"{path}/{i}" if path else str(i))
    else:
        yield path, value


def _structure(value: Any) -> list[dict[str, Any]]:
    """A node as a list of one map: plans have maps in lists only."""
    if isinstance(value, dict):
        return [
            {
                "kind": "dict",
                "names": list(value),
                "children": [_structure(child)[0] for child in value.values()],
            }
        ]
    if isinstance(value, tuple):
        return [{"kind": "tuple", "children": [_structure(child)[0] for child in value]}]
    return [{"kind": "leaf"}]


def _column(name: str, value: Any) -> dict[str, Any]:
    import numpy as np

    if isinstance(value, Ragged):
        dimensions = [-1 if d is None else int(d) for d in value.shape]
        bounds = [{"bytes": np.ascontiguousarray(offsets, dtype=np.int64).tobytes()} for offsets in value.offsets]
        return _filled({"name": name, "rows": len(value), "shape": dimensions}, np.asarray(value.values), bounds)
    if isinstance(value, np.ma.MaskedArray):
        raise Invalid(f"from_arrays: {name or 'the array'} is masked, and rows have no mask; fill it: array.filled(0)")
    try:
        array = np.asarray(value)
    except ValueError:
        raise Invalid(f"from_arrays: {name or 'the array'} has rows of differing length; give a Ragged(values, offsets) of them") from None
    if array.ndim == 0:
        raise Invalid(f"from_arrays: {name or 'the array'} is a single value; give one for each row")
    return _filled({"name": name, "rows": len(array), "shape": [int(d) for d in array.shape[1:]]}, array, [])


def _filled(column: dict[str, Any], array: NDArray[Any], bounds: list[dict[str, bytes]]) -> dict[str, Any]:
    """The column with its dtype and buffers; a string is one more ragged level."""
    import numpy as np

    if array.dtype.kind in "SUO":
        strings = [_to_bytes(column["name"], item) for item in array.reshape(-1).tolist()]
        ends = np.cumsum([0, *map(len, strings)], dtype=np.int64)
        return {
            **column,
            "dtype": "string",
            "offsets": [*bounds, {"bytes": ends.tobytes()}],
            "values": b"".join(strings),
        }
    native = array.astype(array.dtype.newbyteorder("="), copy=False)  # a dtype's name does not say its byte order
    filled = {**column, "dtype": native.dtype.name, "values": native.tobytes()}
    return {**filled, "offsets": bounds} if bounds else filled


def _to_bytes(name: str, item: Any) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, str):
        return item.encode()
    raise Invalid(f"from_arrays: {name or 'the array'} holds {type(item).__name__}; numbers, bytes and str can be rows")
