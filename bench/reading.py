"""Measured figures of reading, on this machine: each line is the best of three runs.

Workers, dispatcher and consumer share its cores, so these are the whole system's figures, not the network's or a single part's.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

import numpy as np

import penstock
from penstock import Dataset, Fixed
from penstock.tfrecord import write_tfrecord

FILES, ROWS = 16, 4000
RUNS = 3


def main() -> None:
    print(f"{os.cpu_count()} cores, penstock {penstock.__version__}")
    with tempfile.TemporaryDirectory() as directory, penstock.local(workers=2) as service:
        records = _records(directory)
        sockets = penstock.connect(service.address, shared_memory=False)
        _report("tf.Examples of 600 bytes from gzip, inline", _rate(records, "inline"), "rows/s")
        _report("tf.Examples of 600 bytes from gzip, 2 workers", _rate(records, service), "rows/s")
        small = Dataset.from_range(2_000_000).batch(64)
        _report("batches of 64 numbers, 2 workers", _rate(small, service, unit=64), "batches/s")
        large = Dataset.from_arrays({"x": np.zeros((1, 1 << 17), np.int64)}).repeat(512).batch(8)
        _report("rows of 1 MiB in batches of 8, shared memory", _rate(large, service), "MiB/s")
        _report("rows of 1 MiB in batches of 8, socket", _rate(large, sockets), "MiB/s")
        _report("first batch of a small job", 1000 / _best(lambda: _first_batch(service)), "ms")


def _records(directory: str) -> Dataset:
    for file in range(FILES):
        rows = ({"id": file * ROWS + i, "x": np.random.rand(128).astype(np.float32)} for i in range(ROWS))
        write_tfrecord(f"{directory}/{file}.gz", rows, "gzip")
    return Dataset.from_tfrecord(f"{directory}/*.gz").parse_example({"id": "int64", "x": Fixed("float32", [128])}).batch(64)


def _rate(dataset: Dataset, service: penstock.Service | str, unit: float = 1) -> float:
    def once() -> float:
        with dataset.distribute(service) as reader:
            begin = time.perf_counter()
            for _ in reader:
                pass
            return reader.stats().rows / unit / (time.perf_counter() - begin)

    return _best(once)


def _first_batch(service: penstock.Service) -> float:
    """Its rate, so that the best is the highest here too."""
    with Dataset.from_range(1000).batch(10).distribute(service) as reader:
        begin = time.perf_counter()
        next(iter(reader))
        return 1 / (time.perf_counter() - begin)


def _best(measure: Callable[[], float]) -> float:
    return max(measure() for _ in range(RUNS))


def _report(what: str, figure: float, unit: str) -> None:
    print(f"{what:55} {figure:12,.1f} {unit}", flush=True)


if __name__ == "__main__":
    main()
