"""Specs of rows: leaf columns and the structure around them, as plans carry them and as user code's values are checked against them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from penstock import _columns
from penstock._executor import lists
from penstock._executor.failures import CodeError
from penstock.ragged import Ragged

RAGGED = -1


class Column(NamedTuple):
    """A leaf. `shape` is of one row, RAGGED where its length differs. `arrays`: rows come as arrays, and are seen as such again, not as `Ragged`.
    `type`: what its values are in Python, where all of the first rows agree: "str" and "bytes" (or lists of such), "int", "float", "bool", "list" (of
    numbers), "array" (numpy's); "": anything else (tensors).
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    arrays: bool = False
    type: str = ""

    @property
    def nested(self) -> bool:
        """Whether lengths could differ within a row."""
        return RAGGED in self.shape[1:]


class RowSpec(NamedTuple):
    columns: tuple[Column, ...]
    structure: Any  # None is a leaf; dicts and tuples of such; () stands where rows have None, which has no column

    def to_attrs(self) -> dict[str, Any]:
        return {"columns": [_column_to_map(column) for column in self.columns], "structure": [_structure_to_map(self.structure)]}

    @staticmethod
    def from_attrs(attrs: dict[str, Any]) -> RowSpec:
        columns = tuple(Column(c["name"], c["dtype"], tuple(c["shape"]), c.get("arrays", False), c.get("type", "")) for c in attrs["columns"])
        return RowSpec(columns, _structure_from_map(attrs["structure"][0]))

    def leaves(self, row: Any) -> list[Any]:
        """The row's values, one a column; an error names what does not fit."""
        return list(_leaves(row, self.structure, ""))

    def build(self, leaves: Sequence[Any]) -> Any:
        return _columns.builder(self.structure)(leaves)


def _column_to_map(column: Column) -> dict[str, Any]:
    told: dict[str, Any] = {"name": column.name, "dtype": column.dtype, "shape": list(column.shape)}
    told |= {"arrays": True} if column.arrays and column.nested else {}
    return told | ({"type": column.type} if column.type else {})


def _structure_to_map(structure: Any) -> dict[str, Any]:
    if structure is None:
        return {"kind": "leaf"}
    if isinstance(structure, dict):
        return {"kind": "dict", "names": list(structure), "children": [_structure_to_map(child) for child in structure.values()]}
    return {"kind": "tuple", "children": [_structure_to_map(child) for child in structure]} if structure else {"kind": "tuple"}


def _structure_from_map(node: dict[str, Any]) -> Any:
    if node["kind"] == "leaf":
        return None
    children = [_structure_from_map(child) for child in node.get("children", ())]
    return dict(zip(node["names"], children)) if node["kind"] == "dict" else tuple(children)


def _leaves(value: Any, structure: Any, path: str) -> Iterator[Any]:
    if structure is None:
        yield value
    elif isinstance(structure, dict):
        if not isinstance(value, dict) or value.keys() != structure.keys():
            got = f"a dict of {sorted(map(str, value))}" if isinstance(value, dict) else type(value).__name__
            raise CodeError(f"{path or 'the row'} should be a dict of {sorted(structure)}, but is {got}; rows of a dataset look alike")
        for name, child in structure.items():
            yield from _leaves(value[name], child, f"{path}/{name}" if path else name)
    else:
        if not isinstance(value, (tuple, list)) or len(value) != len(structure):
            got = f"{len(value)} values" if isinstance(value, (tuple, list)) else type(value).__name__
            raise CodeError(f"{path or 'the row'} should be a tuple of {len(structure)}, but is {got}; rows of a dataset look alike")
        for i, child in enumerate(structure):
            yield from _leaves(value[i], child, f"{path}/{i}" if path else str(i))


# ---- what rows look like, from some of them


def infer(rows: Sequence[Any], structure: Any = ...) -> RowSpec:
    """The spec of which all these are rows: dimensions that differ are ragged. `structure`, where it is known."""
    structure = _structure_of_rows(rows, "") if structure is ... else structure
    names = list(_names(structure, ""))
    if not names:
        raise CodeError(f"the row is {rows[0]!r}, and holds nothing: a row has at least one value", code="Invalid")
    columns: list[Column] = []
    for i, name in enumerate(names):
        values = [list(_leaves(row, structure, ""))[i] for row in rows]
        columns.append(_infer_column(name, values))
    return RowSpec(tuple(columns), structure)


def structure_of(value: Any) -> Any:
    """Of dicts and tuples; a list is a column."""
    return _structure_of_rows([value], "", lists_are_columns=True)


def _structure_of_rows(rows: Sequence[Any], path: str, lists_are_columns: bool = False) -> Any:
    first = rows[0]
    if isinstance(first, (dict, tuple)) and not first and path:
        raise CodeError(f"{path} is {first!r}, and holds nothing; leave it out", code="Invalid")
    if isinstance(first, dict):
        names = {_name(name, path): name for name in first}
    elif isinstance(first, tuple) or (not lists_are_columns and lists.are_fields(rows)):
        names = dict(zip(map(str, range(len(first))), range(len(first))))
    else:
        return None
    alike = [row for row in rows if _keys(row) == _keys(first)]  # others are told when they are taken apart
    children = {name: _structure_of_rows([row[key] for row in alike], _below(path, name), lists_are_columns) for name, key in names.items()}
    return children if isinstance(first, dict) else tuple(children.values())


def _keys(value: Any) -> Any:
    return value.keys() if isinstance(value, dict) else len(value) if isinstance(value, (tuple, list)) else None


def _below(path: str, name: Any) -> str:
    return f"{path}/{name}" if path else str(name)


def _name(name: Any, path: str) -> str:
    if not isinstance(name, str):
        raise CodeError(
            f"{path or 'the row'} has the name {name!r}, of type {type(name).__name__}; names are str, such as {str(name)!r}", code="Invalid"
        )
    return name


def _names(structure: Any, path: str) -> Iterator[str]:
    if structure is None:
        yield path
        return
    items = structure.items() if isinstance(structure, dict) else ((str(i), child) for i, child in enumerate(structure))
    for name, child in items:
        yield from _names(child, f"{path}/{name}" if path else name)


def _infer_column(name: str, values: Sequence[Any]) -> Column:
    kinds = [_describe(name, value) for value in values]
    telling = [kind for kind in kinds if kind[0]] or kinds
    dtype, shape = telling[0]
    if not dtype:
        raise CodeError(f"{name or 'the row'} is an empty list in all of the first rows, which does not say of what; give spec=", code="Invalid")
    for other, other_shape in telling[1:]:
        if other != dtype:
            raise CodeError(f"{name or 'the row'} is {dtype} in one row and {other} in another; give spec=", code="Invalid")
        if len(other_shape) != len(shape):
            raise CodeError(
                f"{name or 'the row'} has {len(shape)} dimensions in one row and {len(other_shape)} in another; give spec=", code="Invalid"
            )
    for _, other_shape in kinds:
        common = min(len(shape), len(other_shape))
        shape = (*(a if a == b else RAGGED for a, b in zip(shape, other_shape)), *shape[common:])
    types = {_python_type(value, dtype) for value in values}
    arrays = not any(isinstance(value, (Ragged, list, tuple)) for value in values)
    return Column(name, dtype, shape, arrays, types.pop() if len(types) == 1 else "")


def _python_type(value: Any, dtype: str) -> str:
    import numpy as np

    if dtype == "string":
        if isinstance(value, np.ndarray) and value.dtype.kind == "U":
            return "str"
        return next((kind.__name__ for kind in (str, bytes) if _is_all(value, kind)), "")
    if isinstance(value, (np.ndarray, np.generic)):
        return "array"
    return type(value).__name__ if type(value) in (int, float, bool, list) else ""


def _is_all(value: Any, kind: type) -> bool:
    """Of classes of its own, like numpy's str_, too."""
    return all(_is_all(item, kind) for item in value) if type(value) is list else isinstance(value, kind)


def _describe(name: str, value: Any) -> tuple[str, tuple[int, ...]]:
    """dtype and shape; "" is the dtype of an empty list, which fits all."""
    import numpy as np

    if isinstance(value, Ragged):
        return _dtype_name(name, value.values), (len(value), *(RAGGED if d is None else d for d in value.shape))
    if isinstance(value, (str, bytes)):
        return "string", ()
    if value is None:
        raise CodeError(f"{name or 'the row'} is None; leave it out, or give a value that stands for it", code="Invalid")
    if both := lists.mixed(value):
        raise CodeError(
            f"{name or 'the row'} is a list of {both}, which is no array; give a dict or a tuple of them, or lists that are equally long",
            code="Invalid",
        )
    try:
        array = to_numpy(value)
    except ValueError:  # lists that are not equally long
        kinds = [_describe(name, item) for item in value]
        dtype, inner = max(kinds, key=lambda kind: (bool(kind[0]), len(kind[1])))
        return dtype, (len(value), *(RAGGED for _ in inner))
    if isinstance(value, (list, tuple)) and array.size == 0:
        return "", tuple(int(d) for d in array.shape)
    if array.dtype.kind == "O" and not all(isinstance(v, (bytes, str)) for v in array.reshape(-1).tolist()):
        held = " and ".join(sorted(set(lists.names(value))))
        raise CodeError(f"{name or 'the row'} holds {held}; numbers, arrays, tensors, bytes and str can be rows", code="Invalid")
    return _dtype_name(name, np.asarray(array)), tuple(int(d) for d in array.shape)


def _dtype_name(name: str, array: Any) -> str:
    return "string" if array.dtype.kind in "SUO" else str(array.dtype.name)


def to_numpy(value: Any) -> Any:
    """Arrays, torch and TensorFlow tensors, without a copy where they lie in this process's memory."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return value
    detach = getattr(value, "detach", None)
    if detach is not None:  # torch
        tensor = detach().cpu()
        if tensor.is_sparse or "sparse" in str(tensor.layout):
            raise CodeError(f"a tensor is sparse ({tensor.layout}), and rows have dense ones; give .to_dense() of it", code="Invalid")
        if str(tensor.dtype) == "torch.bfloat16":
            import ml_dtypes
            import torch

            return tensor.contiguous().view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
        return tensor.resolve_conj().resolve_neg().numpy()
    numpy = getattr(value, "numpy", None)
    return np.asarray(numpy() if callable(numpy) else value)


def from_element_spec(spec: Any) -> RowSpec:
    """From what `Dataset.element_spec` looks like: leaves with dtype and shape (None: ragged), in dicts and tuples."""
    structure = _spec_structure(spec)
    leaves = list(_leaves(spec, structure, ""))
    columns = []
    for name, leaf in zip(_names(structure, ""), leaves):
        dtype = _dtype_of_spec(leaf.dtype)
        columns.append(Column(name, dtype, tuple(RAGGED if d is None or d < 0 else int(d) for d in leaf.shape), arrays=True))
    return RowSpec(tuple(columns), structure)


def _spec_structure(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {_name(name, "spec"): _spec_structure(child) for name, child in spec.items()}
    if isinstance(spec, tuple) and not hasattr(spec, "dtype"):
        return tuple(_spec_structure(child) for child in spec)
    return None


def _dtype_of_spec(dtype: Any) -> str:
    import numpy as np

    if dtype in (str, bytes, object, "string", "bytes", "str"):
        return "string"
    name = str(np.dtype(dtype).name)
    return "string" if name == "object" else name
