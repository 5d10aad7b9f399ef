"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, within: float = 20.0) -> T:
    """Asks again until the condition holds, and returns what it gave."""
    end = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not happen within {within} s"
        time.sleep(0.005)
