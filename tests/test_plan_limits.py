"""What no plan can hold is refused where it is given, in words of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock
from penstock import Dataset, Fixed, _core

DEFAULTS: dict[str, tuple[Any, str]] = {
    "beyond int64": (("int64", (), 2**70), r"default=1180591620717411303424 is wrong; expected int64 values"),
    "one of several": (("int64", (2,), [1, -(2**63) - 1]), "expected int64 values"),
    "a half": (("int64", (), 1.7), "default=1.7 is wrong; expected int64 values: whole numbers"),
    "no number": (("int64", (), float("nan")), "default=nan is wrong; expected int64 values"),
    "infinitely many": (("int64", (), float("inf")), "default=inf is wrong; expected int64 values"),
    "text for a number": (("float32", (), "1.5"), "default='1.5' is wrong; expected float32 values"),
    "beyond float32": (("float32", (), 1e60), r"default=1e\+60 is wrong; expected float32 values"),
    "a number beyond all floats": (("float32", (), 10**400), "is wrong; expected float32 values"),
    "a number for text": (("string", (), 5), "default=5 is wrong; expected string values"),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_that_its_dtype_does_not_hold_is_refused_at_the_call(name: str) -> None:
    given, told = DEFAULTS[name]
    with pytest.raises(penstock.Invalid, match=f"Fixed: {told}" if told.startswith("default") else told):
        Fixed(*given)


KEPT: dict[str, tuple[Any, list[Any]]] = {
    "the least": (("int64", (), -(2**63)), [-(2**63)]),
    "numpy's": (("int64", (2,), np.array([1, 2], np.int8)), [1, 2]),
    "a whole float": (("int64", (), 2.0), [2]),
    "a flag": (("int64", (), True), [1]),
    "the largest": (("float32", (), np.finfo(np.float32).max), [float(np.finfo(np.float32).max)]),
    "infinity": (("float32", (), -np.inf), [-np.inf]),
    "text": (("string", (2,), ["a", b"b"]), [b"a", b"b"]),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_default_that_fits_is_taken(name: str) -> None:
    from penstock.features import to_attr

    given, values = KEPT[name]
    assert to_attr("x", Fixed(*given))["default"] == values


def _facts(default: list[Any], dtype: str) -> Any:
    source = _core.Plan.over([], "tfrecord", {"files": ["/nowhere"]})
    feature = {"name": "x", "dtype": dtype, "shape": [], "var": False, "default": default}
    return _core.Plan.over([source], "parse_example", {"features": [feature]}).facts()


def test_plans_of_others_are_checked_too() -> None:
    with pytest.raises(penstock.Invalid, match="'default' has numbers beyond float32"):
        _facts([1e60], "float32")
    with pytest.raises(ValueError, match="an attribute is 1180591620717411303424; expected a whole number from"):
        _facts([2**70], "int64")


def _chain(length: int) -> Dataset:
    dataset = Dataset.from_range(3)
    for _ in range(length):
        dataset = dataset.skip(0)
    return dataset


def test_a_chain_may_be_longer_than_python_s_stack_is_deep() -> None:
    assert _chain(2000).cardinality() == 3


def test_a_chain_that_no_plan_holds_is_refused_with_how_long_one_may_be() -> None:
    with pytest.raises(penstock.Invalid, match="a chain of more than 4096 operators"):
        _chain(5000).cardinality()
