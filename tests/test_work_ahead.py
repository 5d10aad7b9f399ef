"""An executor makes rows of a lane's next block while nobody asks it for anything."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from penstock import Dataset
from penstock._executor.failures import CodeError
from penstock._executor.runner import Lane, Runner

ROW = 1024  # bytes
BLOCK = {"target": 4 * ROW, "cap": 8 * ROW, "group": 1, "phase": 0, "by_group": False, "to": 1 << 40}


def _rows() -> Iterator[Any]:
    for i in range(14):
        yield np.full(ROW, i, np.uint8)
    raise ValueError("row 14 is missing")


def _lane() -> Lane:
    runner = Runner(Dataset.from_python(_rows, spec=np.zeros(ROW, np.uint8))._plan.serialize())
    opened = {"nodes": [0], "seed": 1, "epoch": 0, "replica": 0, "ordinal": 0, "from_seq": 0, "from_child": 0, "part": 0, "parts": 1}
    runner.open(7, opened)
    return runner.lanes[7]


def _block(lane: Lane, **want: Any) -> "list[int]":
    """The first value of each row of the next block, which is written as a worker has it written."""
    told = lane.answer({**BLOCK, **want}, None, False)
    memory = bytearray(told["rows"] * ROW)
    lane.write([[0, len(memory)]], memoryview(memory))
    return list(memory[::ROW])


def _work_ahead(lane: Lane) -> int:
    steps = 0
    while lane.work_ahead():
        steps += 1
    return steps


def test_it_stops_where_the_next_block_is_complete() -> None:
    lane = _lane()
    assert _work_ahead(lane) == 0, "nothing was asked for yet"
    assert _block(lane) == [0, 1, 2, 3]
    assert _work_ahead(lane) == 4
    assert lane.next_seq == 8
    assert _block(lane) == [4, 5, 6, 7]
    assert lane.next_seq == 8, "the block was there"


def test_it_does_not_go_beyond_the_range() -> None:
    lane = _lane()
    assert _block(lane, to=6) == [0, 1, 2, 3]
    assert _work_ahead(lane) == 2
    assert _block(lane, to=6) == [4, 5]
    assert _work_ahead(lane) == 0


def test_a_block_that_is_told_and_not_written_is_left_alone() -> None:
    lane = _lane()
    told = lane.answer(dict(BLOCK), None, False)
    assert _work_ahead(lane) == 0
    assert lane.answer(dict(BLOCK), None, False) == told


def test_an_error_is_told_after_the_rows_before_it() -> None:
    lane = _lane()
    blocks = []
    for _ in range(4):
        blocks.append(_block(lane))
        _work_ahead(lane)
    assert blocks[3] == [12, 13]
    with pytest.raises(CodeError, match="row 14 is missing"):
        lane.answer(dict(BLOCK), None, False)
