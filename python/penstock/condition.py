"""Conditions on rows that workers evaluate by themselves, without Python: `dataset.filter((col("label") > 0) | (random() < 0.1))`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock._check import function, wrong
from penstock.errors import Invalid

_INT64 = 1 << 63


class Value:
    """A value of a row: a column's, or one drawn at random. Comparing it gives a condition."""

    def __init__(self, step: dict[str, Any], words: str) -> None:
        self._steps = [step]
        self._words = words

    def __eq__(self, other: Any) -> Condition:  # type: ignore[override]
        return self._compared("equal", "==", other)

    def __ne__(self, other: Any) -> Condition:  # type: ignore[override]
        return self._compared("not_equal", "!=", other)

    def __lt__(self, other: Any) -> Condition:
        return self._compared("less", "<", other)

    def __le__(self, other: Any) -> Condition:
        return self._compared("less_equal", "<=", other)

    def __gt__(self, other: Any) -> Condition:
        return self._compared("greater", ">", other)

    def __ge__(self, other: Any) -> Condition:
        return self._compared("greater_equal", ">=", other)

    def isin(self, values: Iterable[Any]) -> Condition:
        """Whether it is one of `values`: numbers, or strings."""
        wanted = list(values)
        steps = [*self._steps, {"op": "in", **_set_of(wanted)}] if wanted else [_literal(False)]
        return Condition(steps, f"{self._words}.isin(…)")

    __hash__ = None  # type: ignore[assignment]  # equality is a condition

    def __bool__(self) -> bool:
        raise TypeError(f"{self._words} has a truth for each row, not one; for a column of bools write `{self._words} == True`")

    def __repr__(self) -> str:
        return self._words

    def _compared(self, op: str, sign: str, other: Any) -> Condition:
        operand = other if isinstance(other, Value) else Value(_literal(other), repr(other))
        return Condition([*self._steps, *operand._steps, {"op": op}], f"{self._words} {sign} {operand._words}")


class Condition:
    """What `Dataset.filter` keeps rows by. `&`, `|` and `~` join conditions; each comparison wants parentheses of its own."""

    def __init__(self, steps: list[dict[str, Any]], words: str) -> None:
        self.steps = steps
        self._words = words

    def __and__(self, other: Condition) -> Condition:
        return self._joined("and", "&", other)

    def __or__(self, other: Condition) -> Condition:
        return self._joined("or", "|", other)

    def __invert__(self) -> Condition:
        return Condition([*self.steps, {"op": "not"}], f"~({self._words})")

    def __bool__(self) -> bool:
        raise TypeError(f"({self._words}) has a truth for each row, not one: join conditions with &, | and ~, not with and, or, not or a chain")

    def __repr__(self) -> str:
        return self._words

    def _joined(self, op: str, sign: str, other: Any) -> Condition:
        if not isinstance(other, Condition):
            raise TypeError(f"({self._words}) {sign} {other!r}: expected another condition; write (a > 1) {sign} (b > 2)")
        return Condition([*self.steps, *other.steps, {"op": op}], f"({self._words}) {sign} ({other._words})")


def col(name: str = "") -> Value:
    """The value of a column; "a/b" is b in the dict a. Without a name: of rows that are one value."""
    if not isinstance(name, str):
        raise wrong("col: name", name, "the name of a column")
    return Value({"op": "column", "name": name}, f"col({name!r})" if name else "col()")


def random() -> Value:
    """A number from 0 up to 1, drawn for each row: by the job's seed, the epoch and the row's place, so it is the same whoever reads."""
    return Value({"op": "random"}, "random()")


def row_condition(name: str, value: Any) -> Any:
    """A check of arguments."""
    return value if isinstance(value, Condition) else function("a function of a row, or a condition such as col('label') > 0")(name, value)


def _literal(value: Any) -> dict[str, Any]:
    value = _plain(value)
    if isinstance(value, bool):
        return {"op": "bool", "value": value}
    if isinstance(value, int):
        return {"op": "int", "value": value} if -_INT64 <= value < _INT64 else {"op": "float", "value": float(value)}
    if isinstance(value, float):
        return {"op": "float", "value": value}
    return {"op": "text", "value": value}


def _set_of(values: list[Any]) -> dict[str, Any]:
    plain = [_plain(value) for value in values]
    if all(isinstance(value, str) for value in plain):
        return {"texts": plain}
    if any(isinstance(value, (str, bool)) for value in plain):
        raise wrong("isin: values", values, "numbers, or strings")
    if all(isinstance(value, int) and -_INT64 <= value < _INT64 for value in plain):
        return {"ints": plain}
    return {"floats": [float(value) for value in plain]}


def _plain(value: Any) -> bool | int | float | str:
    """As Python's own type; strings as text."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise Invalid(f"a condition compares with text, and {value!r} is not UTF-8; filter with a function instead") from None
    if isinstance(value, (bool, int, float, str)):
        return value
    raise wrong("a condition's value", value, "a bool, a number, a string, or another column")
