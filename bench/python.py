"""The same Python function on penstock's executors and on DataLoader's workers, two processes each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import Case, Stopwatch, main

PROCESSES = 2
WARM_UP = 8


def _compute(x: Any) -> Any:
    """1.26 ms of CPU in plain Python, 0.47 with the settings of malloc that executors get; a small answer."""
    values = np.full(20_000, int(x) % 97, np.float64)
    for _ in range(20):
        values = np.sqrt(values * values + 1)
    return values[:8]


def _transfer(x: Any) -> Any:
    """Hardly any work, a mebibyte of answer."""
    return np.full(1 << 20, int(x) % 97, np.uint8)


def _penstock(function: Callable[[Any], Any], rows: int) -> Callable[[Path, Stopwatch], float]:
    def run(_: Path, watch: Stopwatch) -> float:
        import penstock

        with penstock.local(workers=PROCESSES) as service:
            dataset = penstock.Dataset.from_range(rows + WARM_UP).map(function)
            with dataset.distribute(service) as reader:
                return _timed(iter(reader), rows, watch)

    return run


class _Mapped:
    """A map-style dataset of the function's answers."""

    def __init__(self, function: Callable[[Any], Any], rows: int) -> None:
        self.function, self.rows = function, rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: int) -> Any:
        return self.function(index)


def _dataloader(function: Callable[[Any], Any], rows: int) -> Callable[[Path, Stopwatch], float]:
    def run(_: Path, watch: Stopwatch) -> float:
        from torch.utils.data import DataLoader

        return _timed(iter(DataLoader(_Mapped(function, rows + WARM_UP), batch_size=None, num_workers=PROCESSES)), rows, watch)

    return run


def _timed(rows: Any, count: int, watch: Stopwatch) -> float:
    for _ in range(WARM_UP):
        next(rows)
    watch.start()
    for _ in range(count):
        next(rows)
    watch.stop()
    return count


CASES = [
    Case("a function that computes", "rows/s", _penstock(_compute, 4000), {"DataLoader": _dataloader(_compute, 4000)}, at_least={"DataLoader": 1.0}),
    Case(
        "a function whose answer is 1 MiB",
        "rows/s",
        _penstock(_transfer, 3000),
        {"DataLoader": _dataloader(_transfer, 3000)},
        at_least={"DataLoader": 1.2},
    ),
]

if __name__ == "__main__":
    main("python", CASES)
