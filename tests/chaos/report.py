"""What a chaos run came to: a table for people, a line of JSON for each of its rows."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from dataclasses import dataclass, field

from .checker import Count
from .faults import TARGETS


@dataclass
class Report:
    seconds: float = 0.0
    faults: int = 0
    restores: int = 0
    histories: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by mode
    lost: int = 0
    duplicated: int = 0
    strange: int = 0
    misplaced: int = 0
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # by kind, seconds
    wrong: list[str] = field(default_factory=list)

    def add(self, mode: str, count: Count) -> None:
        self.histories[mode] += 1
        self.lost += count.lost
        self.duplicated += count.duplicated
        self.strange += count.strange
        self.misplaced += count.misplaced

    def print(self) -> None:
        rows = [_row(kind, waits) for kind, waits in sorted(self.waits.items())]
        print(f"\n{'longest wait of a loop (ms), by fault':40}{'count':>7}{'p50':>9}{'p99':>9}{'max':>9}{'target':>9}")
        for row in rows:
            target = f"{row['target_s'] * 1000:9.0f}{'' if row['met'] else '  MISSED'}" if row["target_s"] is not None else ""
            print(f"{row['fault']:40}{row['count']:>7}{row['p50_s'] * 1000:>9.0f}{row['p99_s'] * 1000:>9.0f}{row['max_s'] * 1000:>9.0f}{target}")
        read = " and ".join(f"{number} {mode}" for mode, number in self.histories.items())
        print(f"{self.faults} faults, {self.restores} restores, {read} histories in {self.seconds:.0f} s")
        print(f"lost {self.lost}, duplicated {self.duplicated}, at another place in strict's order {self.misplaced}")
        for row in rows:
            print(json.dumps({"chaos": row}))
        print(json.dumps({"chaos": self._summary()}), flush=True)

    def _summary(self) -> dict[str, object]:
        return {
            "seconds": round(self.seconds, 1),
            "faults": self.faults,
            "restores": self.restores,
            "histories": dict(self.histories),
            "lost": self.lost,
            "duplicated": self.duplicated,
            "strange": self.strange,
            "misplaced": self.misplaced,
            "wrong": len(self.wrong),
        }


def _row(kind: str, waits: list[float]) -> dict[str, object]:
    ranked = sorted(waits)
    p99 = ranked[min(len(ranked) - 1, int(len(ranked) * 0.99))]
    target = TARGETS.get(kind)
    return {
        "fault": kind,
        "count": len(ranked),
        "p50_s": round(statistics.median(ranked), 4),
        "p99_s": round(p99, 4),
        "max_s": round(ranked[-1], 4),
        "target_s": target,
        "met": target is None or p99 < target,
    }
