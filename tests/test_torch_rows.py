"""Rows of torch datasets that are lists, text of numpy's, and such that cannot be."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset

torch = pytest.importorskip("torch")

from penstock.torch import DataLoader  # noqa: E402

NAMES = np.array(["cät", "dog"])


class Rows(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __init__(self, row: Callable[[int], Any]) -> None:
        self.row = row

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Any:
        return self.row(i)


def _plain(value: Any) -> Any:
    """With dtypes; lists are tuples, and numpy's strings those of Python."""
    if isinstance(value, dict):
        return {name: _plain(child) for name, child in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return str(value.dtype), value.tolist()
    return (str, str(value)) if isinstance(value, str) else (type(value), value)


FIELDS: dict[str, Callable[[int], Any]] = {
    "an id and a weight": lambda i: [2**53 + 1 + i, 0.5],
    "tensors of differing dtypes": lambda i: [torch.tensor(2**24 + 1 + i), torch.tensor(0.5)],
    "an image and a label": lambda i: [torch.full((2, 2), float(i)), i],
    "vectors of differing lengths": lambda i: [torch.ones(3), torch.ones(2)],
    "two views of an image": lambda i: [np.full((2, 2), i), np.full((2, 2), i + 1)],
    "text and a number": lambda i: ["a", i],
    "a tuple in a list": lambda i: [(i, 0.5), "a"],
    "a list in a dict": lambda i: {"x": i, "pair": [f"{i}", torch.tensor([i])]},
    "lists in a list": lambda i: [[2**53 + 1 + i, 0.5], [2**53 + i, 1.5]],
    "dicts in a list": lambda i: [{"a": i}, {"a": i + 1}],
    "a flag and a number": lambda i: [i % 2 == 0, i],
}


@pytest.mark.parametrize("collate", [None, lambda rows: rows], ids=["collated", "rows"])
@pytest.mark.parametrize("name", FIELDS)
def test_lists_of_unlike_items_are_fields_as_torch_has_them(name: str, collate: Any) -> None:
    dataset = Rows(FIELDS[name])
    wanted = list(torch.utils.data.DataLoader(dataset, 4, collate_fn=collate))
    assert _plain(list(DataLoader(dataset, 4, service="inline", collate_fn=collate))) == _plain(wanted)


ONE_COLUMN: dict[str, tuple[Callable[[int], Any], Any]] = {
    "whole numbers": (lambda i: [i, i + 1], torch.int64),
    "of this kind in one row and of that in another": (lambda i: [i / 2 if i % 2 else i // 2, 0 if i % 2 else 0.5], torch.float64),
    "in lists": (lambda i: [[i, 1], [2, 3]], torch.int64),
}


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_lists_of_like_numbers_are_one_tensor(name: str) -> None:
    row, dtype = ONE_COLUMN[name]
    (batch,) = DataLoader(Rows(row), 12, service="inline")
    assert (batch.dtype, batch.tolist()) == (dtype, [row(i) for i in range(12)])


def test_functions_see_fields_of_lists_as_the_loop_does(start_cluster: StartCluster) -> None:
    def made(x: Any) -> Any:
        return {"pair": [x, x * 0.5]}

    def many(columns: Any) -> Any:
        ids, halves = columns["pair"]
        return ids + (halves * 2).astype(np.int64)

    cluster = start_cluster(1, worker_flags=["--allow-code"])
    mapped = Dataset.from_range(16).map(made).map(lambda row: type(row["pair"]).__name__ == "tuple")
    batched = Dataset.from_range(16).flat_map(lambda x: [made(x)]).map_batch(many, 4)
    for service in ("inline", cluster.address):
        assert all(mapped.distribute(service))
        assert sorted(map(int, batched.distribute(service))) == [2 * i for i in range(16)]


class Text(str):
    pass


TEXTS: dict[str, Callable[[int], Any]] = {
    "numpy's str": lambda i: NAMES[i % 2],
    "numpy's bytes": lambda i: np.bytes_(b"%d" % i),
    "a class of its own": Text,
    "in a list": lambda i: [NAMES[0], Text(i), "c"],
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_stays_text_of_whatever_class(name: str) -> None:
    row = TEXTS[name]
    (batch,) = DataLoader(Rows(row), 12, service="inline")
    kind = bytes if name == "numpy's bytes" else str
    plain = [[kind(item) for item in row(i)] if isinstance(row(i), list) else kind(row(i)) for i in range(12)]
    assert batch == plain
    assert {type(item) for value in batch for item in (value if isinstance(value, list) else [value])} == {kind}


def test_an_array_of_text_is_lists_of_it() -> None:
    (batch,) = DataLoader(Rows(lambda i: NAMES), 12, service="inline")
    assert batch == [["cät", "dog"]] * 12


REFUSED: dict[str, tuple[Callable[[int], Any], str]] = {
    "None": (lambda i: {"x": i, "mask": None}, "mask is None; leave it out"),
    "None in a list": (lambda i: [i, None], "1 is None; leave it out"),
    "names that are numbers": (lambda i: {0: i}, "the name 0, of type int; names are str, such as '0'"),
    "a sparse tensor": (lambda i: torch.eye(3).to_sparse(), r"sparse .*\.to_dense\(\)"),
    "a sparse tensor in a list": (lambda i: {"x": [i, torch.eye(3).to_sparse()]}, r"sparse .*\.to_dense\(\)"),
    "text and numbers in lists of any length": (lambda i: ["a"] + [i] * (i + 1), "a list of int and str, which is no array"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_a_row_is_told_with_what_to_do(name: str) -> None:
    row, told = REFUSED[name]
    with pytest.raises(penstock.Invalid, match=told):
        list(DataLoader(Rows(row), 4, service="inline"))


class Broken(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __init__(self, how: Callable[[], None]) -> None:
        self.how = how

    def __len__(self) -> int:
        return 400

    def __getitem__(self, i: int) -> int:
        if i == 300:
            self.how()
        return i


def _raises() -> None:
    raise KeyError("no such image")


def _exits() -> None:
    import os

    os._exit(3)


@pytest.mark.parametrize(("how", "told"), [(_raises, "KeyError on sample 300 "), (_exits, r"exit code 3; it was in .*, on sample 300")])
def test_what_fails_is_named_by_the_index_in_the_dataset(how: Callable[[], None], told: str, start_cluster: StartCluster) -> None:
    cluster = start_cluster(1, worker_flags=["--allow-code", "--cpus", "1"])
    services = ["inline", cluster.address] if how is _raises else [cluster.address]
    for service in services:
        with pytest.raises(penstock.ExecutorError, match=told) as raised:
            list(DataLoader(Broken(how), 10, shuffle=True, service=service))
        assert raised.value.details["sample"] == "300"
        assert raised.value.seq is not None
        assert raised.value.seq < 400 / 16, "a row of a lane"
