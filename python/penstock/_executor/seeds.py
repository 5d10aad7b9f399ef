"""Randomness of user code: a function of seed, epoch, lane and row, never of time or process."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

_MASK = (1 << 64) - 1


class Key(NamedTuple):
    """Where in which reading a lane is."""

    seed: int
    epoch: int
    replica: int
    lane: int

    def derive(self, *numbers: int) -> int:
        state = self.seed
        for number in (self.epoch, self.replica, self.lane, *numbers):
            state = _mix((state + (number + 1) * 0x9E3779B97F4A7C15) & _MASK)
        return state

    def whole_epoch(self) -> Key:
        """The same for all lanes."""
        return self._replace(lane=0)


def _mix(x: int) -> int:  # the finalizer of SplitMix64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def set_all(number: int) -> None:
    """Seeds the global generators of the libraries that are loaded, for who draws from them now."""
    _leave()
    _seed(number)


class _Drawer:
    """One that draws from the global generators now and then, and goes on each time where it left off, whoever drew in between."""

    now: _Drawer | None = None  # whose turn it is

    def __init__(self, number: int) -> None:
        self._number = number
        self.left_at: dict[str, Any] | None = None

    def take_turn(self) -> None:
        if _Drawer.now is self:
            return
        _leave()
        if self.left_at is None:
            _seed(self._number)
        else:
            _set(self.left_at)
        _Drawer.now = self


def drawing(number: int, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """What `begin` iterates, with generators that are seeded for it, though lanes and functions in the same process use them too."""
    drawer = _Drawer(number)
    drawer.take_turn()
    rows = begin()
    while True:
        drawer.take_turn()
        try:
            row = next(rows)
        except StopIteration:
            return
        yield row


@contextmanager
def kept() -> Iterator[None]:
    """The generators are the program's own again afterwards, as if nobody had drawn."""
    before = _get()
    try:
        yield
    finally:
        _leave()
        _set(before)


def _leave() -> None:
    if _Drawer.now is not None:
        _Drawer.now.left_at = _get()
        _Drawer.now = None


def _get() -> dict[str, Any]:
    states: dict[str, Any] = {"random": random.getstate()}
    if "numpy" in sys.modules:
        states["numpy"] = sys.modules["numpy"].random.get_state()
    if "torch" in sys.modules:
        states["torch"] = sys.modules["torch"].get_rng_state()
    return states


def _set(states: dict[str, Any]) -> None:
    random.setstate(states["random"])
    if "numpy" in states:
        sys.modules["numpy"].random.set_state(states["numpy"])
    if "torch" in states:
        sys.modules["torch"].set_rng_state(states["torch"])


def _seed(number: int) -> None:
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number & 0xFFFFFFFF)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(number)
