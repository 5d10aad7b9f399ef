"""What it costs to go on near the end of a lane, against producing the lane: CPU seconds and time to the rest, in this process (`inline`).

    python bench/resume.py [--rows 100000]

"resume" restores a position a few batches before the end and reads to the end. What opening the dataset costs either way (its plan, its
arrays) is in neither. The figures are the smallest of several runs, the lane is one: nothing else hides what a resume costs.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from penstock import Dataset
from penstock.tfrecord import write_tfrecord

RUNS = 5
LEFT = 4  # batches after the position
BATCH = 256
PAYLOAD = 600  # bytes a row: 100,000 rows are about the 64 MiB that a lane has
LIMITS = {"seekable": 0.10, "any": 1.0}  # of producing the lane; a little more than 1.0 is noise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    print(f"one lane of {rows:,} rows, resumed {LEFT} batches of {BATCH} before its end; {os.cpu_count()} cores")
    print(f"{'dataset':46}{'produce s':>11}{'resume s':>11}{'ratio':>8}{'limit':>8}")
    with tempfile.TemporaryDirectory() as directory:
        for name, limit, dataset in _cases(Path(directory), rows):
            _measure(name, LIMITS[limit], dataset.batch(BATCH))


def _cases(directory: Path, rows: int) -> list[tuple[str, str, Dataset]]:
    write_tfrecord(directory / "plain.tfrecord", _rows(rows))
    write_tfrecord(directory / "rows.tfrecord.gz", _rows(rows), "gzip")
    features = {"id": "int64", "payload": "string"}
    plain = Dataset.from_tfrecord(directory / "plain.tfrecord").parse_example(features)
    packed = Dataset.from_tfrecord(directory / "rows.tfrecord.gz").parse_example(features)
    arrays = Dataset.from_arrays({"id": np.arange(rows), "x": np.zeros((rows, PAYLOAD // 4), np.float32)})
    return [
        ("plain TFRecords", "seekable", plain),
        ("plain TFRecords, shuffle(10000)", "seekable", plain.shuffle(10_000)),
        ("arrays, shuffle(10000)", "seekable", arrays.shuffle(10_000)),
        ("gzip TFRecords", "any", packed),
        ("gzip TFRecords, shuffle(10000)", "any", packed.shuffle(10_000)),
    ]


def _rows(rows: int) -> Any:
    return ({"id": i, "payload": bytes(PAYLOAD)} for i in range(rows))


def _measure(name: str, limit: float, dataset: Dataset) -> None:
    batches = sum(1 for _ in _reader(dataset))
    state = _state_after(dataset, batches - LEFT)
    produce = min(_seconds(dataset, None) for _ in range(RUNS))
    resume = min(_seconds(dataset, state) for _ in range(RUNS))
    ratio = resume / produce
    print(f"{name:46}{produce:>11.3f}{resume:>11.3f}{ratio:>8.1%}{limit:>8.0%}{'' if ratio <= limit else '  OVER'}", flush=True)
    print(json.dumps({"bench": "resume", "case": name, "produce_cpu_s": produce, "resume_cpu_s": resume, "ratio": ratio, "limit": limit}))


def _reader(dataset: Dataset) -> Any:
    return dataset.distribute("inline", seed=3)


def _state_after(dataset: Dataset, steps: int) -> dict[str, Any]:
    reader = _reader(dataset)
    for _, _ in zip(range(steps), reader):
        pass
    state: dict[str, Any] = reader.state_dict()
    return state


def _seconds(dataset: Dataset, state: dict[str, Any] | None) -> float:
    """CPU seconds of all threads of this process, to the last batch."""
    reader = _reader(dataset)
    begin = time.process_time()
    if state is not None:
        reader.load_state_dict(state)
    for _ in reader:
        pass
    return time.process_time() - begin


if __name__ == "__main__":
    main()
