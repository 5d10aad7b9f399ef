"""Elements of dense tensors wait in TensorFlow and are written by it: the blocks are those that Python would make."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import Dataset
from penstock._executor import runner, tf_rows
from penstock._executor.collate import Collator
from penstock._executor.failures import CodeError
from penstock._executor.runner import Lane, Runner
from penstock._tf_op import build

pytestmark = [pytest.mark.xdist_group("tensorflow"), pytest.mark.timeout(300)]

WANT = {"target": 4096, "cap": 8192, "group": 1, "phase": 0, "by_group": False, "to": 1 << 40}
ALIGN = 64


@pytest.fixture(autouse=True)
def library(tf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SEND_AFTER", 60.0)  # blocks are as large as is wanted, however slow the machine is
    build.library()


def _lane(dataset: Any, start: int = 0) -> Lane:
    of_the_plan = Runner(Dataset.from_tf(dataset)._plan.serialize())
    opened = {"nodes": [0], "seed": 1, "epoch": 0, "replica": 0, "ordinal": 0, "from_seq": start, "from_child": 0, "part": 0, "parts": 1}
    of_the_plan.open(7, opened)
    return of_the_plan.lanes[7]


def _crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def _write(lane: Lane, told: "dict[str, Any]") -> "tuple[list[bytes], list[int]]":
    """The buffers of the block that was told, and their CRCs."""
    places, end = [], 0
    for length in told["lengths"]:
        places.append([end, length])
        end += -(-length // ALIGN) * ALIGN
    memory = bytearray(end + ALIGN)
    crcs = lane.write(places, memoryview(memory))
    return [bytes(memory[offset : offset + length]) for offset, length in places], crcs


def _blocks(lane: Lane, **want: Any) -> "list[tuple[Any, ...]]":
    """What is told of each block, and what is in it."""
    blocks = []
    while not (told := lane.answer({**WANT, **want}, None, False))["ended"]:
        buffers, crcs = _write(lane, told)
        assert crcs == ([] if isinstance(lane.rows, Collator) else [_crc32c(buffer) for buffer in buffers])
        blocks.append((told["rows"], told["first_seq"], told["end_seq"], buffers))
    return blocks


def _make(tf: Any, kind: str) -> Any:
    numbers = tf.data.Dataset.range(50)
    elements: dict[str, Callable[[Any], Any]] = {
        "a number": lambda i: i,
        "arrays by name": lambda i: {"second": tf.fill([3, 2], tf.cast(i, tf.float32)), "first": (tf.cast(i % 2, tf.bool), tf.cast(i, tf.bfloat16))},
        "text": lambda i: tf.strings.as_string(i * i),
        "texts": lambda i: (tf.fill([2, 2], tf.strings.as_string(i)), tf.constant("")),
        "large rows": lambda i: tf.fill([300], i),
        "rows over the cap": lambda i: tf.fill([1200], i),
        "rows of no size": lambda i: (tf.zeros([0, 2], tf.float32), i, tf.fill([3, 0], "")),
        "complex numbers": lambda i: tf.fill([2], tf.complex(tf.cast(i, tf.float32), -1.0)),
        "text with zeros": lambda i: (tf.constant("a\0b\0"), tf.strings.join([tf.strings.as_string(i), "\0"])),
    }
    if kind == "batches whose last is smaller":
        return numbers.map(lambda i: {"x": tf.fill([4], i), "y": i}).batch(7)
    return numbers.map(elements[kind])


KINDS = ["a number", "arrays by name", "text", "texts", "large rows", "rows over the cap", "rows of no size", "complex numbers", "text with zeros"]


@pytest.mark.parametrize("kind", [*KINDS, "batches whose last is smaller"])
@pytest.mark.parametrize("start", [0, 3])
def test_blocks_are_those_that_python_makes(tf: Any, monkeypatch: pytest.MonkeyPatch, kind: str, start: int) -> None:
    dataset = _make(tf, kind)
    held = _lane(dataset, start)
    blocks = _blocks(held, group=3, by_group=True)  # which do not depend on how long it takes
    assert isinstance(held.rows, tf_rows.TensorRows)
    monkeypatch.setattr(tf_rows, "can_hold", lambda spec: False)
    by_python = _lane(dataset, start)
    assert blocks == _blocks(by_python, group=3, by_group=True)
    assert isinstance(by_python.rows, Collator)


def test_a_sparse_element_goes_by_way_of_python(tf: Any) -> None:
    lane = _lane(tf.data.Dataset.range(3).map(lambda i: tf.sparse.from_dense(tf.fill([2], i))))
    assert sum(block[0] for block in _blocks(lane)) == 3
    assert isinstance(lane.rows, Collator)


def test_an_error_is_told_after_the_rows_before_it(tf: Any) -> None:
    def fails(i: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(i, np.int64(5), "row 5 is bad")]):
            return tf.fill([64], i)

    lane = _lane(tf.data.Dataset.range(10).map(fails))
    told = lane.answer(dict(WANT), None, False)
    assert told["rows"] == 5
    assert np.frombuffer(_write(lane, told)[0][0], np.int64)[::64].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(CodeError, match="row 5 is bad") as failed:
        lane.answer(dict(WANT), None, False)
    assert failed.value.details["seq"] == "5"


def test_blocks_are_whole_groups_within_the_range(tf: Any) -> None:
    lane = _lane(tf.data.Dataset.range(100))
    assert [block[0] for block in _blocks(_lane(tf.data.Dataset.range(20)), group=6, by_group=True)] == [6, 6, 6, 2]
    told = lane.answer({**WANT, "target": 80, "group": 6, "phase": 2}, None, False)
    assert told["rows"] == 10, "to the target, and to the end of the group"
    _write(lane, told)
    assert lane.answer({**WANT, "to": 13}, None, False)["rows"] == 3


def test_rows_are_made_ahead_up_to_the_next_block(tf: Any) -> None:
    lane = _lane(tf.data.Dataset.range(100).map(lambda i: tf.fill([128], i)))
    _write(lane, lane.answer(dict(WANT), None, False))
    while lane.work_ahead():
        pass
    assert (len(lane.rows), lane.next_seq) == (4, 8)
    assert lane.answer(dict(WANT), None, False)["rows"] == 4
    assert lane.next_seq == 8, "the block was there"


def test_places_of_other_lengths_are_refused(tf: Any) -> None:
    lane = _lane(tf.data.Dataset.range(4))
    lane.answer(dict(WANT), None, False)
    with pytest.raises(ValueError, match="not as long as its rows"):
        lane.write([[0, 16]], memoryview(bytearray(64)))


def test_rows_are_let_go_of_with_their_lane(tf: Any) -> None:
    lane = _lane(tf.data.Dataset.range(4))
    lane.answer(dict(WANT), None, False)
    number = lane.rows._number  # type: ignore[union-attr]
    iterator = lane.rows._iterator  # type: ignore[union-attr]
    del lane
    library = tf_rows._library()
    assert library is not None
    with pytest.raises(tf.errors.NotFoundError, match="no such rows"):
        library.take(iterator._iterator_resource, number)


def test_a_library_that_cannot_be_loaded_is_told_once(
    tf: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "broken.so"
    broken.write_text("of another version")
    monkeypatch.setattr(build, "rows_library", lambda: str(broken))
    tf_rows._library.cache_clear()
    try:
        lanes = [_lane(tf.data.Dataset.range(4)) for _ in range(2)]
        assert all(lane.answer(dict(WANT), None, False)["rows"] for lane in lanes)
        assert all(isinstance(lane.rows, Collator) for lane in lanes)
    finally:
        tf_rows._library.cache_clear()
    assert caplog.text.count("elements of tf.data are handed over by way of Python") == 1
    assert "broken.so" in caplog.text
