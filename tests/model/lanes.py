"""How a lane's rows become batches: groups on a grid of n rows, tails joined first come, first served.

`check_epoch` takes what readers report of their batches (`Reader.provenance`) and says whether it is such a cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Span:
    """Rows [first, end) of a lane in one batch."""

    lane: tuple[int, int, int]  # epoch, replica, lane
    first: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.first


Batch = Sequence[Span]


@dataclass
class Cut:
    """What one consumer makes of lanes, one after the other."""

    n: int
    batches: list[list[Span]] = field(default_factory=list)
    _tails: list[Span] = field(default_factory=list)

    def add_lane(self, lane: tuple[int, int, int], rows: int) -> None:
        whole = rows - rows % self.n
        self.batches += [[Span(lane, first, first + self.n)] for first in range(0, whole, self.n)]
        if rows > whole:
            self._add_tail(Span(lane, whole, rows))

    def _add_tail(self, tail: Span) -> None:
        self._tails.append(tail)
        waiting = sum(span.rows for span in self._tails)
        if waiting < self.n:
            return
        last, over = self._tails[-1], waiting - self.n
        joined = [*self._tails[:-1], Span(last.lane, last.first, last.end - over)]
        self.batches.append(joined)
        self._tails = [Span(last.lane, last.end - over, last.end)] if over else []

    def finish(self, drop_remainder: bool) -> list[list[Span]]:
        if self._tails and not drop_remainder:
            self.batches.append(self._tails)
        self._tails = []
        return self.batches


def check_epoch(batches: Iterable[Batch], lane_rows: dict[tuple[int, int, int], int], n: int) -> None:
    """Every row of every lane once, in whole batches but at most one; full groups on the lane's grid."""
    delivered: dict[tuple[int, int, int], list[Span]] = defaultdict(list)
    short = 0
    for batch in batches:
        size = sum(span.rows for span in batch)
        assert 0 < size <= n, f"a batch of {size} rows where {n} were asked for"
        short += size < n
        if len(batch) == 1 and size == n:
            assert batch[0].first % n == 0, f"{batch[0]} is not on the grid of {n} rows"
        for span in batch:
            delivered[span.lane].append(span)
    assert short <= 1, f"{short} short batches in one epoch"
    assert set(delivered) == {lane for lane, rows in lane_rows.items() if rows}
    for lane, spans in delivered.items():
        cursor = 0
        for span in sorted(spans, key=lambda s: s.first):
            assert span.first == cursor, f"{lane}: rows from {cursor} to {span.first} are missing or doubled"
            cursor = span.end
        assert cursor == lane_rows[lane], f"{lane}: ended at {cursor} of {lane_rows[lane]}"
