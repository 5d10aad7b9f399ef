"""Executors leave checkpoints of tf.data iterators, and a lane is resumed from them."""

import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from penstock._executor.tf_checkpoints import KEPT, Checkpoints

pytestmark = pytest.mark.xdist_group("tensorflow")  # whose import takes seconds


def _records(tf: Any, directory: Path) -> list[str]:
    """Two files of 100 records."""
    files = [str(directory / name) for name in ("a", "b")]
    for file in files:
        with tf.io.TFRecordWriter(file) as writer:
            for i in range(100):
                writer.write(f"{file}-{i}".encode())
    return files


def _read(elements: Any) -> list[bytes]:
    return [element.numpy() for element in elements]


def _rows(checkpoints: Checkpoints, dataset: Any, start: int) -> Iterator[Any]:
    iterator = checkpoints.opened(dataset, start)
    return checkpoints.rows(iterator, iterator, start)


def test_what_came_before_a_checkpoint_is_not_read_again(tf: Any, tmp_path: Path) -> None:
    files = _records(tf, tmp_path)
    dataset = tf.data.TFRecordDataset(files).shuffle(10, seed=1, reshuffle_each_iteration=False).prefetch(2)
    everything = _read(dataset)
    checkpoints = Checkpoints(tmp_path / "saved", every=0)
    assert _read(islice(_rows(checkpoints, dataset, 0), 150)) == everything[:150]
    assert len(list((tmp_path / "saved").iterdir())) == KEPT
    os.remove(files[0])
    assert _read(_rows(Checkpoints(tmp_path / "saved"), dataset, 148)) == everything[148:]


def test_a_lane_begins_anew_where_no_checkpoint_helps(tf: Any, tmp_path: Path) -> None:
    dataset = tf.data.TFRecordDataset(_records(tf, tmp_path))
    everything = _read(dataset)
    checkpoints = Checkpoints(tmp_path / "saved", every=0)
    next(islice(_rows(checkpoints, dataset, 0), 150, None))
    assert _read(_rows(checkpoints, dataset, 20)) == everything[20:], "all were made after row 20"
    for saved in (tmp_path / "saved").iterdir():
        (saved / "state.index").write_bytes(b"damaged")
    assert _read(_rows(checkpoints, dataset, 180)) == everything[180:]
    shutil.rmtree(tmp_path / "saved")
    assert _read(_rows(Checkpoints(tmp_path / "saved"), dataset, 120)) == everything[120:]


def test_a_graph_that_cannot_be_saved_is_read_all_the_same(tf: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    generated = tf.data.Dataset.from_generator(lambda: iter(range(50)), output_signature=tf.TensorSpec((), tf.int64))
    assert [int(x) for x in _rows(Checkpoints(tmp_path, every=0), generated, 5)] == list(range(5, 50))
    assert caplog.text.count("cannot be saved") == 1


def test_nothing_but_the_newest_checkpoints_is_left(tf: Any, tmp_path: Path) -> None:
    dataset = tf.data.Dataset.range(100)
    for taken in (8, 3):  # the second pass has just begun
        checkpoints = Checkpoints(tmp_path, every=0)
        iterator = checkpoints.opened(dataset, 0)
        for n in range(1, taken + 1):
            next(iterator)
            checkpoints.passed(iterator, n)
    assert {"1", "2", "3"} <= {entry.name for entry in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == KEPT, "no temporary directory stays"


def test_nothing_is_left_of_a_checkpoint_that_could_not_be_written(tf: Any, tmp_path: Path) -> None:
    dataset = tf.data.Dataset.from_generator(lambda: iter(range(10)), output_signature=tf.TensorSpec([], tf.int64))
    checkpoints = Checkpoints(tmp_path, every=0)
    assert len(list(_rows(checkpoints, dataset, 0))) == 10
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_of_jobs_that_are_over_are_removed(tf: Any, tmp_path: Path) -> None:
    over, used, foreign = tmp_path / ("a" * 32), tmp_path / ("b" * 32), tmp_path / "mine"
    for directory in (over, used, foreign):
        (directory / "7").mkdir(parents=True)
    (tmp_path / "now" / "new-of-the-killed").mkdir(parents=True)
    for old in (over, foreign, tmp_path / "now" / "new-of-the-killed"):
        os.utime(old, (0, 0))
    list(_rows(Checkpoints(tmp_path / "now", every=0), tf.data.Dataset.range(3), 0))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([used.name, "mine", "now"])
    assert sorted(entry.name for entry in (tmp_path / "now").iterdir()) == ["1", "2", "3"]
