"""Executors leave checkpoints of tf.data iterators, and a lane is resumed from them."""

import os
import shutil
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


def test_what_came_before_a_checkpoint_is_not_read_again(tf: Any, tmp_path: Path) -> None:
    files = _records(tf, tmp_path)
    dataset = tf.data.TFRecordDataset(files).shuffle(10, seed=1, reshuffle_each_iteration=False).prefetch(2)
    everything = _read(dataset)
    checkpoints = Checkpoints(tmp_path / "saved", every=0)
    assert _read(islice(checkpoints.rows(dataset, 0, iter), 150)) == everything[:150]
    assert len(list((tmp_path / "saved").iterdir())) == KEPT
    os.remove(files[0])
    assert _read(Checkpoints(tmp_path / "saved").rows(dataset, 148, iter)) == everything[148:]


def test_a_lane_begins_anew_where_no_checkpoint_helps(tf: Any, tmp_path: Path) -> None:
    dataset = tf.data.TFRecordDataset(_records(tf, tmp_path))
    everything = _read(dataset)
    checkpoints = Checkpoints(tmp_path / "saved", every=0)
    next(islice(checkpoints.rows(dataset, 0, iter), 150, None))
    assert _read(checkpoints.rows(dataset, 20, iter)) == everything[20:], "all were made after row 20"
    for saved in (tmp_path / "saved").iterdir():
        (saved / "state.index").write_bytes(b"damaged")
    assert _read(checkpoints.rows(dataset, 180, iter)) == everything[180:]
    shutil.rmtree(tmp_path / "saved")
    assert _read(Checkpoints(tmp_path / "saved").rows(dataset, 120, iter)) == everything[120:]


def test_a_graph_that_cannot_be_saved_is_read_all_the_same(tf: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    generated = tf.data.Dataset.from_generator(lambda: iter(range(50)), output_signature=tf.TensorSpec((), tf.int64))
    assert [int(x) for x in Checkpoints(tmp_path, every=0).rows(generated, 5, iter)] == list(range(5, 50))
    assert caplog.text.count("cannot be saved") == 1
