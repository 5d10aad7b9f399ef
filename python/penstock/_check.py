"""Arguments, checked where they are given: a wrong one is named with its value and what is expected, before anything is planned or read.

    @checked(batch_size=whole(1), drop_remainder=flag)
    def batch(self, batch_size, drop_remainder=False): ...

A check takes an argument's name and value, and returns the value to go on with.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from penstock.errors import Invalid

Check = Callable[[str, Any], Any]
F = TypeVar("F", bound=Callable[..., Any])

INT64 = 2**63 - 1
_FOREVER = 100 * 365 * 24 * 3600.0  # milliseconds of it still fit the core's clock, in nanoseconds too
_UNITS = {"": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_SHOWN = 80  # letters of a value


def checked(**checks: Check) -> Callable[[F], F]:
    """Checks arguments by name. One that is missing, or too many, stays Python's own TypeError."""

    def wrap(function: F) -> F:
        signature = inspect.signature(function)
        name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        assert checks.keys() <= signature.parameters.keys(), f"{name} has no such parameters"

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            for argument, check in checks.items():
                if argument in bound.arguments:
                    bound.arguments[argument] = check(f"{name}: {argument}", bound.arguments[argument])
            return function(*bound.args, **bound.kwargs)

        return call  # type: ignore[return-value]

    return wrap


def wrong(name: str, value: Any, expected: str) -> Invalid:
    shown = repr(value)
    return Invalid(f"{name}={shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'} is wrong; expected {expected}")


def whole(least: int = -INT64 - 1, most: int = INT64, hint: str = "") -> Check:
    """A whole number between the two; numpy's are such, too, and bools are not."""
    expected = "a whole number from -2**63 to 2**63-1" if least < -INT64 else f"a whole number from {least}" + (f" to {most}" if most < INT64 else "")
    expected += f", {hint}" if hint else ""

    def check(name: str, value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            raise wrong(name, value, expected) from None
        if isinstance(value, bool) or not least <= number <= most:
            raise wrong(name, value, expected)
        return number

    return check


def seconds(name: str, value: Any) -> float:
    """A time to wait; infinity is as long as the core can count."""
    expected = "seconds to wait, from 0, or float('inf')"
    if isinstance(value, (str, bytes, bool)):
        raise wrong(name, value, expected)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise wrong(name, value, expected) from None
    if math.isnan(number) or number < 0:
        raise wrong(name, value, expected)
    return min(number, _FOREVER)


def size(name: str, value: Any) -> int:
    """Bytes: 268435456 and "256MiB" alike."""
    expected = "a number of bytes, or one with KiB, MiB or GiB: '256MiB'"
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", value.lower()) if isinstance(value, str) else None
    if match is not None and match[2] in _UNITS:
        value = int(float(match[1]) * _UNITS[match[2]])
    return int(whole(1, hint=expected)(name, value))


def flag(name: str, value: Any) -> bool:
    """True or False; numpy's too."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise wrong(name, value, "True or False")


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(name, value, "a string")
    return value


def one_of(*choices: str) -> Check:
    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise wrong(name, value, " or ".join(map(repr, choices)))
        return value

    return check


def optional(check: Check) -> Check:
    """None, or what `check` takes."""

    def maybe(name: str, value: Any) -> Any:
        return None if value is None else check(name, value)

    return maybe


def function(expected: str) -> Check:
    def check(name: str, value: Any) -> Any:
        if not callable(value):
            raise wrong(name, value, expected)
        return value

    return check


def files(name: str, value: Any) -> list[str]:
    """Paths or patterns as strings; relative ones are made absolute, for a worker has another directory."""
    expected = "a path or pattern, or a list of them"
    given = [value] if isinstance(value, (str, os.PathLike)) else _listed(name, value, expected)
    if not given:
        raise wrong(name, value, f"{expected}, with at least one in it")
    return [_absolute(name, file, expected) for file in given]


def path(name: str, value: Any) -> str:
    """One path as a string, absolute."""
    return _absolute(name, value, "a path")


def _absolute(name: str, file: Any, expected: str) -> str:
    path = os.fspath(file) if isinstance(file, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path:
        raise wrong(name, file, expected)
    return path if "://" in path else os.path.abspath(path)


def names(name: str, value: Any) -> list[str]:
    """A list of strings; one string by itself would be taken for its letters."""
    expected = "a list of names"
    if isinstance(value, (str, bytes)):
        raise wrong(name, value, f"{expected}: [{value!r}]")
    return [text(name, item) for item in _listed(name, value, expected)]


def shape(name: str, value: Any) -> tuple[int, ...]:
    expected = "a tuple of whole numbers, such as (4,)"
    return tuple(whole(0, hint="for each dimension")(name, item) for item in _listed(name, value, expected))


def mapping(expected: str) -> Check:
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, Mapping) or not value or not all(isinstance(key, str) for key in value):
            raise wrong(name, value, expected)
        return value

    return check


def instances(kind: Callable[[], type], expected: str) -> Check:
    """Each of *args is one of `kind`, which is asked for when first needed."""

    def check(name: str, value: Any) -> Any:
        for item in value:
            if not isinstance(item, kind()):
                raise wrong(name, item, expected)
        return value

    return check


def _listed(name: str, value: Any, expected: str) -> list[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise wrong(name, value, expected)
    return list(value)
