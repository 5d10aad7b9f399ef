"""Randomness of user code: a function of seed, epoch, lane and row, never of time or process."""

from __future__ import annotations

import random
import sys
from typing import NamedTuple

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
    """Seeds the global generators of the libraries that are loaded."""
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number & 0xFFFFFFFF)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(number)
