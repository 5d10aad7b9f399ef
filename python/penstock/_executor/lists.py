"""Which lists of rows are one array, and which are fields, as tuples are: `[1, 2]` and `[image, label]` are both lists to Python.

Fields are items that differ in kind, and tensors, arrays and dicts. Like numbers, like strings, and lists of such are one array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_NUMBERS = {int: "int64", float: "float64", bool: "bool", complex: "complex128"}
_TEXT, _LIST = "text", "list of "
_OTHER = "other"  # what no array of numbers or strings has among its items


def are_fields(values: Sequence[Any]) -> bool:
    """Of one column, or row, in all the rows that are looked at: fields are equally many, and each is of its own kind in all of them."""
    if not all(isinstance(value, list) for value in values) or len({len(value) for value in values}) != 1:
        return False
    places = list(zip(*values))
    kinds = [{frozenset(kinds) for item in place if (kinds := _kinds(item))} for place in places]
    all_kinds = [frozenset().union(*of_place) for of_place in kinds if of_place]
    if any(_OTHER in of_place for of_place in all_kinds):
        return True
    if len(set(all_kinds)) > 1:  # numbers that are whole in this row and not in that are a list of numbers
        return all(len(of_place) <= 1 for of_place in kinds) or not _are_numbers(frozenset().union(*all_kinds))
    return any(are_fields([list(item) if isinstance(item, tuple) else item for item in place]) for place in places)


def mixed(value: Any) -> str:
    """The types in a list that has text and numbers, and is no array; "" where there is one of both at most."""
    kinds = _kinds(value) if isinstance(value, (list, tuple)) else set()
    texts = {kind for kind in kinds if _TEXT in kind}
    return " and ".join(sorted(set(names(value)))) if texts and kinds - texts else ""


def names(value: Any) -> Iterator[str]:
    """Of the types in a list, or of what is none."""
    if not isinstance(value, (list, tuple)):
        yield type(value).__name__
        return
    for item in value:
        yield from names(item)


def _are_numbers(kinds: frozenset[str]) -> bool:
    """Equally deep in lists, so that they can be one array."""
    return not any(_TEXT in kind for kind in kinds) and len({kind.count(_LIST) for kind in kinds}) == 1


def _kinds(item: Any) -> set[str]:
    """Of all that is in it, with how deep: none for an empty list, which is like any other."""
    if isinstance(item, (list, tuple)):
        inner = {kind for part in item for kind in _kinds(part)}
        return {_OTHER} if _OTHER in inner else {_LIST + kind for kind in inner}
    if isinstance(item, (str, bytes)):
        return {f"{_TEXT} of str" if isinstance(item, str) else f"{_TEXT} of bytes"}
    if type(item) in _NUMBERS:
        return {_NUMBERS[type(item)]}
    return {str(item.dtype.name)} if _is_scalar(item) else {_OTHER}


def _is_scalar(item: Any) -> bool:
    import numpy as np

    return isinstance(item, np.generic)


def as_tuples(value: Any, structure: Any) -> Any:
    """A row whose fields came in lists as it comes out of blocks; what does not fit is told when it is taken apart."""
    if isinstance(structure, dict) and isinstance(value, dict):
        return {name: as_tuples(child, structure.get(name)) for name, child in value.items()} if _has_tuples(structure) else value
    if isinstance(structure, tuple) and isinstance(value, (list, tuple)) and len(value) == len(structure):
        if isinstance(value, tuple) and not any(map(_has_tuples, structure)):
            return value
        return tuple(as_tuples(item, child) for item, child in zip(value, structure))
    return value


def _has_tuples(structure: Any) -> bool:
    if isinstance(structure, dict):
        return any(map(_has_tuples, structure.values()))
    return isinstance(structure, tuple)
