"""Going on from a position near the end of a lane, in this process (`inline`): until the first batch, and what the rest costs.

A position is restored a few batches before the end of a lane of 100,000 rows. It is compared with what a loader without positions does, which reads
up to there and throws away, and with producing the whole lane. What opening the dataset costs (its plan, its arrays) is in none of it. Each figure is
the smallest of several runs in one process, the lane is one: nothing else hides what a resume costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import Case, Contestant, Stopwatch, main

RUNS = 5
ROWS = 100_000
LEFT = 4  # batches after the position
BATCH = 256
BEFORE = -(-ROWS // BATCH) - LEFT
PAYLOAD = 600  # bytes a row: 100,000 rows are about the 64 MiB that a lane has
SHUFFLE = 10_000
TENTH, ALL = 10.0, 1.0  # of producing the lane: where a source can seek, and where it cannot


def prepare(directory: Path) -> None:
    from penstock.tfrecord import write_tfrecord

    write_tfrecord(directory / "plain.tfrecord", _rows())
    write_tfrecord(directory / "rows.tfrecord.gz", _rows(), "gzip")


def _rows() -> Iterator[dict[str, Any]]:
    return ({"id": i, "payload": bytes(PAYLOAD)} for i in range(ROWS))


def _dataset(directory: Path, source: str, shuffled: bool) -> Any:
    from penstock import Dataset

    if source == "arrays":
        dataset = Dataset.from_arrays({"id": np.arange(ROWS), "x": np.zeros((ROWS, PAYLOAD // 4), np.float32)})
    else:
        dataset = Dataset.from_tfrecord(directory / source).parse_example({"id": "int64", "payload": "string"})
    return (dataset.shuffle(SHUFFLE) if shuffled else dataset).batch(BATCH)


def _reader(dataset: Any) -> Any:
    return dataset.distribute("inline", seed=3)


def _position(dataset: Any) -> dict[str, Any]:
    with _reader(dataset) as reader:
        assert sum(1 for _ in islice(reader, BEFORE)) == BEFORE
        state: dict[str, Any] = reader.state_dict()
        return state


def _milliseconds(go: Callable[[Any], None], clock: Callable[[], float], source: str, shuffled: bool, resumed: bool) -> Contestant:
    """By `clock`, of `go`, which gets a reader that is open, and at its position if it is `resumed`."""

    def run(directory: Path, watch: Stopwatch) -> float:
        dataset = _dataset(directory, source, shuffled)
        state = _position(dataset) if resumed else None
        watch.start()
        smallest = min(_time(dataset, state, go, clock) for _ in range(RUNS))
        watch.stop()
        return smallest * 1000

    return run


def _time(dataset: Any, state: dict[str, Any] | None, go: Callable[[Any], None], clock: Callable[[], float]) -> float:
    with _reader(dataset) as reader:
        begin = clock()
        if state is not None:
            reader.load_state_dict(state)
        go(reader)
        return clock() - begin


def _to_the_end(reader: Any) -> None:
    for _ in reader:
        pass


def _one_batch(reader: Any) -> None:
    next(iter(reader))


def _one_batch_after_all_before(reader: Any) -> None:
    next(islice(reader, BEFORE, None))


SOURCES = {
    "plain TFRecords": ("plain.tfrecord", False, TENTH),
    f"plain TFRecords, shuffle({SHUFFLE})": ("plain.tfrecord", True, TENTH),
    f"arrays, shuffle({SHUFFLE})": ("arrays", True, TENTH),
    "gzip TFRecords": ("rows.tfrecord.gz", False, ALL),
    f"gzip TFRecords, shuffle({SHUFFLE})": ("rows.tfrecord.gz", True, ALL),
}


def _cases() -> Iterator[Case]:
    wall, cpu = time.perf_counter, time.process_time
    for name, (source, shuffled, aim) in SOURCES.items():
        first = _milliseconds(_one_batch, wall, source, shuffled, resumed=True)
        there = {"reading up to there": _milliseconds(_one_batch_after_all_before, wall, source, shuffled, resumed=False)}
        yield Case(f"{name}: to the first batch", "ms", first, there, lower_is_better=True)
        rest = _milliseconds(_to_the_end, cpu, source, shuffled, resumed=True)
        lane = {"producing the lane": _milliseconds(_to_the_end, cpu, source, shuffled, resumed=False)}
        yield Case(f"{name}: the rest", "CPU ms", rest, lane, lower_is_better=True, at_least={"producing the lane": aim})


if __name__ == "__main__":
    main("resume", list(_cases()), prepare)
