"""tf.Example records from TFRecord files: inflate, check, parse, shuffle, batch.

The rows are a recommender's: 2.4 KB each (400 + 60 floats, 60 + 13 hashed ids; six of ten of the 400 are zero), gzip level 6, batches of 512.
DataLoader's two processes read whole files in turns by the package tfrecord, in Python. Mosaic Streaming reads the same rows from files of its own
format, uncompressed, which are written before.
"""

from __future__ import annotations

import gzip
import importlib.util
import random
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import Case, Contestant, Stopwatch, main

FILES, ROWS, BATCH = 8, 6_000, 512
PASSES = 5
PASSES_IN_PYTHON = 1  # of DataLoader, which takes as long for one
PROCESSES = 2
CYCLE = 4  # files that are read in turns; where rows are shuffled penstock does so by itself
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


def _prepare_for_all(directory: Path) -> None:
    prepare(directory)
    if importlib.util.find_spec(NEEDS["Mosaic Streaming"]) is None:
        return
    columns = {name: f"ndarray:float32:{size}" for name, size in FLOATS.items()} | {name: f"ndarray:int64:{size}" for name, size in INTEGERS.items()}
    with _mosaic().MDSWriter(out=str(directory / "mds"), columns={**columns, "label": "float32"}, size_limit="16mb") as writer:
        for file in range(FILES):
            for row in _rows(file):
                writer.write(row)


def _rows(file: int) -> Iterator[dict[str, Any]]:
    numbers = np.random.default_rng(file)
    for _ in range(ROWS):
        row: dict[str, Any] = {name: numbers.random(size, np.float32) for name, size in FLOATS.items()}
        row["dense"][numbers.random(FLOATS["dense"]) < 0.6] = 0
        row |= {name: numbers.integers(0, 1 << 48, size) for name, size in INTEGERS.items()}
        yield {**row, "label": np.float32(numbers.random() < 0.1)}


# ---- penstock


def penstock_dataset(pattern: str, whole: bool, passes: int = PASSES) -> Any:
    from penstock import Dataset, Fixed, col
    from penstock import random as uniform

    features = {name: Fixed("float32", [size]) for name, size in FLOATS.items()}
    features |= {name: Fixed("int64", [size]) for name, size in INTEGERS.items()}
    features["label"] = Fixed("float32", [])
    dataset = Dataset.from_tfrecord(pattern)
    if not whole:
        return dataset.interleave(CYCLE).parse_example(features).batch(BATCH).repeat(passes)
    clicks_and_some = (col("label") > 0) | (uniform() < KEEP)
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
    dataset = files.interleave(lambda file: tf.data.TFRecordDataset(file, compression_type=kind), cycle_length=CYCLE, num_parallel_calls=2)
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


# ---- torch: a TFRecord reader in DataLoader's processes, and Mosaic Streaming


def _dataloader(pattern: str, whole: bool = False) -> Callable[[Path, Stopwatch], float]:
    def run(directory: Path, watch: Stopwatch) -> float:
        from tfrecord import iterator_utils, reader
        from torch.utils.data import IterableDataset, get_worker_info

        files = sorted(str(file) for file in directory.glob(pattern))
        description = dict.fromkeys(FLOATS, "float") | dict.fromkeys(INTEGERS, "int") | {"label": "float"}
        compression = "gzip" if pattern.endswith("gz") else None

        class Records(IterableDataset[Any]):
            def __iter__(self) -> Iterator[Any]:
                process = get_worker_info()
                assert process is not None
                mine = files[process.id :: PROCESSES]
                rows = (row for file in mine for row in reader.tfrecord_loader(file, None, description, compression_type=compression))
                return iterator_utils.shuffle_iterator(rows, SHUFFLE // PROCESSES) if whole else rows

        return _through_dataloader(Records(), whole, watch)

    return run


def _mosaic_streaming(directory: Path, watch: Stopwatch) -> float:
    dataset = _mosaic().StreamingDataset(local=str(directory / "mds"), batch_size=BATCH, shuffle=True, shuffle_block_size=SHUFFLE)
    return _through_dataloader(dataset, True, watch)


def _mosaic() -> Any:
    """Without its datasets of images: they import torchvision, which PyPI has for CUDA alone."""
    sys.modules.setdefault("streaming.vision", types.ModuleType("streaming.vision"))
    import streaming

    return streaming


def _through_dataloader(dataset: Any, whole: bool, watch: Stopwatch) -> float:
    from torch.utils.data import DataLoader

    collate = _collate_clicks_and_some if whole else None
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=PROCESSES, collate_fn=collate, persistent_workers=True)
    watch.start()
    kept = sum(batch["label"].shape[0] for _ in range(PASSES_IN_PYTHON) for batch in loader)
    watch.stop()
    return _read(kept, whole, PASSES_IN_PYTHON)


def _collate_clicks_and_some(rows: list[Any]) -> Any:
    from torch.utils.data import default_collate

    return default_collate([row for row in rows if row["label"] > 0 or random.random() < KEEP])


def _read(kept: int, whole: bool, passes: int = PASSES) -> int:
    """Rows that were read for those that the loop got."""
    rows = FILES * ROWS * passes
    expected = rows * (0.1 + 0.9 * KEEP) if whole else rows
    assert abs(kept - expected) < 0.01 * rows, f"{kept} rows came, and {expected:.0f} should"
    return rows


READER = "DataLoader with tfrecord"
NEEDS = {"tf.data": "tensorflow", READER: "tfrecord", "Mosaic Streaming": "streaming"}


def _case(name: str, pattern: str, whole: bool, aim: float, others: dict[str, Contestant] | None = None) -> Case:
    peers = {"tf.data": _tf(pattern, whole), READER: _dataloader(pattern, whole), **(others or {})}
    return Case(name, "rows a CPU s", _penstock(pattern, whole), peers, per="cpu_s", at_least={"tf.data": aim}, needs=NEEDS)


CASES = [
    _case("gzip: inflate, check, parse, batch", "*.gz", False, 4),
    _case("gzip: shuffled and downsampled", "*.gz", True, 3.5),
    _case("plain", "*.tfrecord", False, 8),
    _case("plain: shuffled and downsampled", "*.tfrecord", True, 8, {"Mosaic Streaming": _mosaic_streaming}),
]

if __name__ == "__main__":
    main("records", CASES, _prepare_for_all)
