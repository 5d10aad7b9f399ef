"""What rows of columns are in Python.

Which of those with ragged dimensions are arrays: those that came as arrays, and padded batches. The same for the loop and for functions, here and on
workers. All others are `Ragged`, also where their lengths happen to agree: a loop must not meet another type in the last batch.
And of which types the values were that user code gave, for loops that want those again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from penstock.ragged import Ragged, as_array

Node = tuple[str, list[int], dict[str, Any]]

TEXT = ("str", "bytes")  # of `Column.type`
_BESIDE_BATCH = ("prefetch", "project", "repeat")  # mean the same before and after it


def are_arrays(nodes: list[Node], number: int, name: str, unbatched: bool = False) -> bool:
    """Of column `name` of node `number`. `unbatched`: rows are seen before a last batching."""
    op, inputs, attrs = nodes[number]
    if op == "padded_batch":
        return True
    if op == "batch" and not unbatched:
        return False
    if op == "zip":
        part, _, name = name.partition("/")
        inputs = [inputs[int(part)]]
    elif op == "enumerate":
        name = name.partition("/")[2]
    elif op != "filter" and "payload" in attrs:  # user code, which makes rows of its own
        return any(column["name"] == name and column.get("arrays", False) for column in attrs["columns"])
    unbatched = unbatched and op in _BESIDE_BATCH
    return bool(inputs) and all(are_arrays(nodes, number, name, unbatched) for number in inputs)


def array_columns(nodes: list[Node], number: int, names: Iterable[str], unbatched: bool = False) -> frozenset[int]:
    """Places of the columns whose rows are arrays."""
    return frozenset(place for place, name in enumerate(names) if are_arrays(nodes, number, name, unbatched))


def value_types(nodes: list[Node], number: int, names: Iterable[str], unbatched: bool) -> tuple[str, ...]:
    """`Column.type` of each column of node `number`. `unbatched`: of rows before a last batching."""
    return tuple(_value_type(nodes, number, name, unbatched) for name in names)


def _value_type(nodes: list[Node], number: int, name: str, unbatched: bool) -> str:
    op, inputs, attrs = nodes[number]
    if op == "zip":
        part, _, name = name.partition("/")
        inputs = [inputs[int(part)]]
    elif op == "enumerate":
        part, _, name = name.partition("/")
        inputs = inputs if part == "1" else []
    elif op != "filter" and "payload" in attrs:  # user code, which makes rows of its own
        return next((str(column.get("type", "")) for column in attrs["columns"] if column["name"] == name), "")
    elif op == "parse_example":
        return ""
    batched = op in ("batch", "padded_batch")
    types = {_value_type(nodes, number, name, unbatched and op in _BESIDE_BATCH) for number in inputs}
    kept = types.pop() if len(types) == 1 else ""
    return kept if kept in TEXT or not batched or unbatched else ""  # rows that are batches are tensors, and lists of text


def split(leaves: Iterable[Any], arrays: Collection[int]) -> Iterator[tuple[Any, ...]]:
    """Rows of columns, each a tuple of leaves: views of the columns' memory, scalars as numpy scalars."""
    return zip(*(map(as_array, leaf) if place in arrays and isinstance(leaf, Ragged) else leaf for place, leaf in enumerate(leaves)))
