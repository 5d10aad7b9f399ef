"""tf.Example records from TFRecord files: inflate, check, parse, shuffle, batch.

The rows are a recommender's: 2.4 KB each (400 + 60 floats, 60 + 13 hashed ids; six of ten of the 400 are zero), gzip level 6, batches of 512.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import Case, Stopwatch, main

FILES, ROWS, BATCH = 8, 6_000, 512
PASSES = 5
FLOATS = {"dense": 400, "context": 60}
INTEGERS = {"history": 60, "ids": 13}
SHUFFLE = 10_000
KEEP = 0.5  # of the rows without a click: downsampling


def prepare(directory: Path) -> None:
    from penstock.tfrecord import write_tfrecord

    for file in range(FILES):
        plain = directory / f"{file}.tfrecord"
        write_tfrecord(plain, _rows(file))
        (directory / f"{file}.tfrecord.gz").write_bytes(gzip.compress(plain.read_bytes(), 6))  # by zlib, as the field's files are


def _rows(file: int) -> Iterator[dict[str, Any]]:
    random = np.random.default_rng(file)
    for _ in range(ROWS):
        row: dict[str, Any] = {name: random.random(size, np.float32) for name, size in FLOATS.items()}
        row["dense"][random.random(FLOATS["dense"]) < 0.6] = 0
        row |= {name: random.integers(0, 1 << 48, size) for name, size in INTEGERS.items()}
        yield {**row, "label": np.float32(random.random() < 0.1)}


# ---- penstock


def penstock_dataset(pattern: str, whole: bool, passes: int = PASSES) -> Any:
    from penstock import Dataset, Fixed, col, random

    features = {name: Fixed("float32", [size]) for name, size in FLOATS.items()}
    features |= {name: Fixed("int64", [size]) for name, size in INTEGERS.items()}
    features["label"] = Fixed("float32", [])
    dataset = Dataset.from_tfrecord(pattern)
    if not whole:
        return dataset.parse_example(features).batch(BATCH).repeat(passes)
    clicks_and_some = (col("label") > 0) | (random() < KEEP)
    return dataset.shuffle(SHUFFLE).parse_example(features).filter(clicks_and_some).batch(BATCH).repeat(passes)


def _penstock(pattern: str, whole: bool = False) -> Callable[[Path, Stopwatch], float]:
    def run(directory: Path, watch: Stopwatch) -> float:
        with penstock_dataset(str(directory / pattern), whole).distribute("inline") as reader:
            watch.start()
            kept = sum(len(batch["label"]) for batch in reader)
            watch.stop()
        return _read(kept, whole)

    return run


# ---- tf.data


def tf_dataset(pattern: str, whole: bool, passes: int = PASSES) -> Any:
    import tensorflow as tf

    spec = {name: tf.io.FixedLenFeature([size], tf.float32) for name, size in FLOATS.items()}
    spec |= {name: tf.io.FixedLenFeature([size], tf.int64) for name, size in INTEGERS.items()}
    spec["label"] = tf.io.FixedLenFeature([], tf.float32)
    kind = "GZIP" if pattern.endswith("gz") else ""
    files = tf.data.Dataset.list_files(pattern, shuffle=False)
    dataset = files.interleave(lambda file: tf.data.TFRecordDataset(file, compression_type=kind), cycle_length=4, num_parallel_calls=2)
    if whole:
        dataset = dataset.shuffle(SHUFFLE)
    dataset = dataset.batch(BATCH).map(lambda rows: tf.io.parse_example(rows, spec), num_parallel_calls=2)
    if whole:
        dataset = dataset.map(_downsampled, num_parallel_calls=2)
    return dataset.repeat(passes).prefetch(2)


def _downsampled(rows: Any) -> Any:
    import tensorflow as tf

    label = rows["label"]
    kept = (label > 0) | (tf.random.uniform(tf.shape(label)) < KEEP)
    return {name: tf.boolean_mask(values, kept) for name, values in rows.items()}


def _tf(pattern: str, whole: bool = False) -> Callable[[Path, Stopwatch], float]:
    def run(directory: Path, watch: Stopwatch) -> float:
        dataset = tf_dataset(str(directory / pattern), whole)
        iterator = iter(dataset)
        watch.start()
        kept = sum(len(batch["label"]) for batch in iterator)
        watch.stop()
        return _read(kept, whole)

    return run


def _read(kept: int, whole: bool) -> int:
    """Rows that were read for those that the loop got."""
    rows = FILES * ROWS * PASSES
    expected = rows * (0.1 + 0.9 * KEEP) if whole else rows
    assert abs(kept - expected) < 0.01 * rows, f"{kept} rows came, and {expected:.0f} should"
    return rows


CASES = [
    Case("gzip: inflate, check, parse, batch", "rows a CPU s", _penstock("*.gz"), {"tf.data": _tf("*.gz")}, per="cpu_s", at_least={"tf.data": 4}),
    Case(
        "gzip: shuffled and downsampled",
        "rows a CPU s",
        _penstock("*.gz", True),
        {"tf.data": _tf("*.gz", True)},
        per="cpu_s",
        at_least={"tf.data": 3.5},
    ),
    Case("plain", "rows a CPU s", _penstock("*.tfrecord"), {"tf.data": _tf("*.tfrecord")}, per="cpu_s", at_least={"tf.data": 8}),
    Case(
        "plain: shuffled and downsampled",
        "rows a CPU s",
        _penstock("*.tfrecord", True),
        {"tf.data": _tf("*.tfrecord", True)},
        per="cpu_s",
        at_least={"tf.data": 8},
    ),
]

if __name__ == "__main__":
    main("records", CASES, prepare)
