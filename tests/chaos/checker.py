"""Counts what the ranks wrote down. It knows ids and nothing of penstock."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path


@dataclass(frozen=True)
class Leg:
    """The logs of the ranks of one start, and the step up to which they count: that of the checkpoint from which the next start went on."""

    logs: list[Path]
    upto: int | None  # None: all of it


@dataclass(frozen=True)
class Count:
    lost: int
    duplicated: int
    strange: int  # rows that are none of the dataset's
    misplaced: int = 0  # rows at another place than in the one order, where there is one

    @property
    def right(self) -> bool:
        return self.lost == self.duplicated == self.strange == self.misplaced == 0


def batches_of(log: Path) -> list[list[int]]:
    """A line a batch: "asked received step id id …". A line that was cut off by a kill is of a batch that no checkpoint names."""
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    return [[int(word) for word in line.split()[3:]] for line in lines if line.endswith("\n") and line[0].isdigit()]


def sequence(history: list[Leg]) -> list[int]:
    """All rows, step by step, and rank by rank within a step."""
    steps = chain.from_iterable(zip_longest(*(batches_of(log)[: leg.upto] for log in leg.logs), fillvalue=()) for leg in history)
    return [row for step in steps for batch in step for row in batch]


def count(history: list[Leg], rows: int, order: list[int] | None = None) -> Count:
    """`order`: that of an undisturbed reading; None where any is right."""
    got = sequence(history)
    seen = Counter(got)
    everything = set(range(rows))
    return Count(
        lost=len(everything - set(seen)),
        duplicated=sum(times - 1 for times in seen.values()),
        strange=len(set(seen) - everything),
        misplaced=0 if order is None else sum(a != b for a, b in zip_longest(got, order)),
    )
