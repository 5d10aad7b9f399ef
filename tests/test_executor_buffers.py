"""User code may fill one buffer again and again: each row is what it was when it was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock import Dataset
from penstock._executor import given
from penstock.ragged import Ragged

ROWS = 100
LARGE = 3000  # int64: more than is copied without looking


class Pair(NamedTuple):
    first: Any
    second: Any


def _reusing(length: int, out: Callable[[Any], Any]) -> Callable[[Any], Any]:
    buffer = np.zeros(length, np.int64)

    def fill(x: Any) -> Any:
        buffer[:] = int(x)
        return out(buffer)

    return fill


def _source(length: int) -> Callable[[], Iterator[Any]]:
    def rows() -> Iterator[Any]:
        buffer = np.zeros(length, np.int64)
        for i in range(ROWS):
            buffer[:] = i
            yield buffer

    return rows


def _ragged() -> Callable[[Any], Any]:
    buffer = np.zeros(7, np.int64)

    def fill(x: Any) -> Any:
        buffer[:] = int(x)
        return buffer[: 1 + int(x) % 7]

    return fill


def _list() -> Callable[[Any], Any]:
    buffer = [0, 0]

    def fill(x: Any) -> Any:
        buffer[:] = [int(x), int(x)]
        return buffer

    return fill


def _dict(length: int) -> Callable[[Any], Any]:
    row = {"x": np.zeros(length, np.int64)}

    def fill(x: Any) -> Any:
        row["x"][:] = int(x)
        return row

    return fill


def _tensor(length: int) -> Callable[[Any], Any]:
    import torch

    buffer = torch.zeros(length, dtype=torch.int64)
    return lambda x: buffer.fill_(int(x))


def _batch(length: int) -> Callable[[Any], Any]:
    buffer = np.zeros((ROWS, length), np.int64)

    def fill(x: Any) -> Any:
        buffer[: len(x)] = x.reshape(-1, 1)
        return buffer[: len(x)]

    return fill


R = Dataset.from_range(ROWS)
CASES: dict[str, Callable[[], Dataset]] = {
    "small": lambda: R.map(_reusing(3, lambda b: b)),
    "large": lambda: R.map(_reusing(LARGE, lambda b: b)),
    "a view of a large one": lambda: R.map(_reusing(2 * LARGE, lambda b: b[:LARGE])),
    "in a new tuple": lambda: R.map(_reusing(LARGE, lambda b: (b, 1))),
    "in a named tuple": lambda: R.map(_reusing(LARGE, lambda b: Pair(b, 1))),
    "in the same dict": lambda: R.map(_dict(LARGE)),
    "ragged": lambda: R.map(_ragged()),
    "a list": lambda: R.map(_list()),
    "a tensor": lambda: R.map(_tensor(3)),
    "a large tensor": lambda: R.map(_tensor(LARGE)),
    "between functions": lambda: R.map(_reusing(LARGE, lambda b: b)).map(lambda b: b + 0),
    "before a function of batches": lambda: R.map(_reusing(3, lambda b: b)).batch(4).map_batch(lambda b: b + 0),
    "of a function of batches": lambda: R.batch(4).map_batch(_batch(LARGE)),
    "of a flat_map": lambda: R.flat_map(lambda x: iter([_reusing(3, lambda b: b)(x)])),
    "a source": lambda: Dataset.from_python(_source(3)),
    "a large source": lambda: Dataset.from_python(_source(LARGE)),
}


def _numbers(element: Any) -> list[int]:
    """The number that a row, or each row of a batch, is full of."""
    if isinstance(element, dict):
        element = element["x"]
    if isinstance(element, tuple):
        element = element[0]
    rows = [element] if np.ndim(element) == 1 else list(element)
    assert all(len(set(np.asarray(row).tolist())) == 1 for row in rows)
    return [int(row[0]) for row in rows]


@pytest.mark.parametrize("name", CASES)
def test_rows_are_what_they_were_when_they_were_given(name: str) -> None:
    elements = CASES[name]().distribute("inline")
    assert sorted(number for element in elements for number in _numbers(element)) == list(range(ROWS))


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data_ptr())


def _same(made: Callable[[], Any]) -> bool:
    """Whether the memory of what a function gives is taken as it is."""
    addresses = []

    def call(_: Any) -> Any:
        array = made()
        addresses.append(_address(array))
        return array

    got = given.by(call, None)
    return _address(got) == addresses[0]


def test_large_rows_that_nobody_else_holds_are_not_copied() -> None:
    import torch

    assert _same(lambda: np.zeros(LARGE))
    assert _same(lambda: np.zeros(2 * LARGE)[:LARGE])
    assert _same(lambda: torch.zeros(LARGE))
    held = np.zeros(LARGE)
    assert not _same(lambda: held)
    assert not _same(lambda: held[:])
    assert not _same(lambda: torch.from_numpy(held))
    tensor = torch.zeros(LARGE)
    assert not _same(lambda: tensor.view(-1))


def test_the_arrays_of_a_large_dict_that_nobody_else_holds_are_not_copied() -> None:
    addresses = []

    def call(_: Any) -> Any:
        row = {"x": np.zeros(LARGE), "y": (np.ones(LARGE), 3)}
        addresses.extend([_address(row["x"]), _address(row["y"][0])])
        return row

    got = given.by(call, None)
    assert addresses == [_address(got["x"]), _address(got["y"][0])]


def test_what_is_not_an_array_stays_what_it_is() -> None:
    ragged = Ragged(np.arange(3), (np.array([0, 2, 3]),))
    for row in ("text", b"bytes", 3, None, Pair(1, "two"), np.int64(3), ragged):
        assert type(given.by(lambda row: row, row)) is type(row)
