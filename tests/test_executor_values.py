"""A value that its column's dtype cannot hold is told, never changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock
from penstock import Dataset, Spec

LOST: dict[str, tuple[Any, Any, str]] = {
    "int64 in int32": (np.int64(2**40), Spec(np.int32, ()), r"int32\[\], but is 1099511627776"),
    "int64 in int8": (np.int64(300), Spec(np.int8, ()), r"int8\[\], but is 300"),
    "a Python int in int64": (2**63, Spec(np.int64, ()), r"int64\[\], but is 9223372036854775808"),
    "a Python int beyond all": (2**70, Spec(np.int64, ()), r"int64\[\], but is 1180591620717411303424"),
    "float64 in float16": (1e30, Spec(np.float16, ()), r"float16\[\], but is 1e\+30"),
    "one of an array": (np.array([1, 2, 300]), Spec(np.int8, (3,)), r"int8\[3\], but is 300"),
    "one of a ragged row": (np.array([1, 2, 300]), Spec(np.int8, (None,)), r"int8\[ragged\], but is 300"),
    "one of a list": ([1, 2, 300], Spec(np.uint8, (3,)), r"uint8\[3\], but is 300"),
    "one of a negative list": ([1, -2], Spec(np.uint8, (2,)), r"uint8\[2\], but is -2"),
}


@pytest.mark.parametrize("name", LOST)
def test_a_value_that_does_not_survive_is_told_with_its_dtype_and_column(name: str) -> None:
    value, spec, told = LOST[name]
    dataset = Dataset.from_range(10).map(lambda x: {"v": value}, spec={"v": spec})
    with pytest.raises(penstock.ExecutorError, match=f"v should be {told}"):
        list(dataset.distribute("inline"))


KEPT: dict[str, tuple[Any, Any]] = {
    "int64 in int32": (np.int64(-(2**31)), Spec(np.int32, ())),
    "a Python int in uint8": (255, Spec(np.uint8, ())),
    "a Python int in uint64": (2**64 - 1, Spec(np.uint64, ())),
    "a list of Python ints in uint16": ([0, 65535], Spec(np.uint16, (2,))),
    "float64 rounded to float32": (0.1, Spec(np.float32, ())),
    "infinity in float16": (np.inf, Spec(np.float16, ())),
    "no number in float16": (np.array([np.nan, 1.0]), Spec(np.float16, (2,))),
    "an int in float32": (3, Spec(np.float32, ())),
    "a bool in int8": (True, Spec(np.int8, ())),
    "nothing in int8": ([], Spec(np.int8, (None,))),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_value_that_fits_is_taken_whatever_its_own_dtype(name: str) -> None:
    value, spec = KEPT[name]
    for row in Dataset.from_range(2).map(lambda x: value, spec=spec).distribute("inline"):
        np.testing.assert_array_equal(row, np.asarray(value).astype(spec.dtype))
