"""The token of a service that this process starts for itself, where nobody has given one."""

from __future__ import annotations

import os
import secrets
import threading

_VARIABLE, _FILE = "PENSTOCK_TOKEN", "PENSTOCK_TOKEN_FILE"


def draw() -> str:
    """A token that no other user of this machine has; "" where the environment has one already, which then counts."""
    return "" if os.environ.get(_FILE) or os.environ.get(_VARIABLE) else secrets.token_hex(32)


class _Shown:
    """In the environment, so that this process, and those that it starts, show the token to whatever service they are told the address of.

    Services that overlap in time have one token in common, for there is one variable; with the last of them it goes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._token = ""
        self._services = 0

    def begin(self) -> bool:
        """For one service more. True: `end` is to follow; False: the environment has a token of its own."""
        with self._lock:
            if drawn := draw():
                os.environ[_VARIABLE] = self._token = drawn
                self._services = 0
            ours = self._token != "" and os.environ.get(_VARIABLE) == self._token
            self._services += ours
            return ours

    def end(self) -> None:
        with self._lock:
            self._services -= 1
            if self._services == 0 and os.environ.get(_VARIABLE) == self._token:
                del os.environ[_VARIABLE]


shown = _Shown()
