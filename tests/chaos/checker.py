"""Counts what the ranks wrote down. It knows ids and nothing of penstock."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
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

    @property
    def right(self) -> bool:
        return self.lost == self.duplicated == self.strange == 0


def batches_of(log: Path) -> list[list[int]]:
    """A line a batch: "asked received step id id …". A line that was cut off by a kill is of a batch that no checkpoint names."""
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    return [[int(word) for word in line.split()[3:]] for line in lines if line.endswith("\n") and line[0].isdigit()]


def count(history: list[Leg], rows: int) -> Count:
    seen: Counter[int] = Counter()
    for leg in history:
        for log in leg.logs:
            for batch in batches_of(log)[: leg.upto]:
                seen.update(batch)
    everything = set(range(rows))
    return Count(
        lost=len(everything - set(seen)),
        duplicated=sum(times - 1 for times in seen.values()),
        strange=len(set(seen) - everything),
    )
