"""The order of `strict`, as a pure function: the definition that src/client/ring.h is tested against."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

Piece = tuple[int, int, int]  # lane, first row, rows


def strict_order(lane_rows: Sequence[int], n: int, places: int) -> tuple[list[list[Piece]], list[Piece]]:
    """The batches g = 0, 1, 2… over lanes in the epoch's seeded order, and the pieces left over at the end (fewer than n rows)."""
    waiting = deque(range(len(lane_rows)))
    ring = [waiting.popleft() for _ in range(min(places, len(waiting)))]
    cursor = [0] * len(lane_rows)
    tails: deque[Piece] = deque()
    batches: list[list[Piece]] = []
    place = 0
    while ring:
        place %= len(ring)
        lane = ring[place]
        if lane_rows[lane] - cursor[lane] >= n:
            batches.append([(lane, cursor[lane], n)])
            cursor[lane] += n
            place += 1
            continue
        # No full group left: its tail waits, the next lane takes place and turn.
        if lane_rows[lane] > cursor[lane]:
            tails.append((lane, cursor[lane], lane_rows[lane] - cursor[lane]))
        if waiting:
            ring[place] = waiting.popleft()
        else:
            ring.pop(place)
        if sum(rows for _, _, rows in tails) >= n:  # a batch, as soon as they are enough for one: fewer than n rows ever wait
            batches.append(_take_rows(tails, n))
    return batches, list(tails)


def mixed_order(lane_rows: Sequence[int], n: int, places: int, mix: int = 1) -> list[list[Piece]]:
    """All batches of `mix` groups each; the last may be short."""
    groups, rest = strict_order(lane_rows, n // mix, places)
    batches = [[piece for group in groups[i : i + mix] for piece in group] for i in range(0, len(groups), mix)]
    if rest and len(groups) % mix == 0:
        batches.append([])
    if rest:
        batches[-1].extend(rest)
    return batches


def _take_rows(tails: deque[Piece], n: int) -> list[Piece]:
    pieces = []
    while n:
        lane, first, rows = tails.popleft()
        taken = min(rows, n)
        pieces.append((lane, first, taken))
        n -= taken
        if rows > taken:
            tails.appendleft((lane, first + taken, rows - taken))
    return pieces
