"""A block's memory comes with the call that asks for its rows, where it is expected to be like the one before."""

import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from conftest import StartCluster
from penstock import Dataset
from penstock._executor.__main__ import Executor

ROW = 1024  # bytes
WANT = {"op": "fill", "lane": 7, "target": 4 * ROW, "cap": 8 * ROW, "group": 1, "phase": 0, "by_group": False, "to": 1 << 40, "input_over": False}
ROOM = {"rows": 4, "lengths": [4 * ROW], "places": [[128, 4 * ROW]]}
MEMORY = {"segment": 3, "offset": 64, "bytes": 128 + 4 * ROW}


def _rows(count: int) -> Iterator[Any]:
    return (np.full(ROW, i, np.uint8) for i in range(count))


class _Ten:
    def __call__(self) -> Iterator[Any]:
        return _rows(10)


@pytest.fixture
def executor() -> Iterator[Executor]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        executor = Executor(ours, 0)
        executor._do({"op": "plan"}, Dataset.from_python(_Ten(), spec=np.zeros(ROW, np.uint8))._plan.serialize())
        opened = {"seed": 1, "epoch": 0, "replica": 0, "ordinal": 0, "from_seq": 0, "from_child": 0, "part": 0, "parts": 1}
        executor._do({"op": "open", "lane": 7, "nodes": [0], **opened}, b"")
        executor.segments[3] = memoryview(bytearray(64 + 128 + 4 * ROW))
        yield executor


def _values(executor: Executor) -> "list[int]":
    return list(executor.segments[3][64 + 128 :: ROW])


def test_rows_that_are_as_expected_are_written_at_once(executor: Executor) -> None:
    answer = executor._do({**WANT, **MEMORY, "room": ROOM}, b"")
    assert (answer["rows"], answer["written"]) == (4, {})
    assert _values(executor) == [0, 1, 2, 3]
    assert executor._do({**WANT, **MEMORY, "room": ROOM}, b"")["first_seq"] == 4, "what was written is not told again"


def test_rows_that_are_not_as_expected_wait_for_other_memory(executor: Executor) -> None:
    other = {**ROOM, "rows": 3, "lengths": [3 * ROW]}
    answer = executor._do({**WANT, **MEMORY, "room": other}, b"")
    assert answer["rows"] == 4
    assert "written" not in answer
    assert not any(executor.segments[3])
    executor._do({"op": "write", "lane": 7, "places": ROOM["places"], **MEMORY}, b"")
    assert _values(executor) == [0, 1, 2, 3]


class _Changing:
    """Blocks that are alike for long, then others, and again."""

    def __call__(self) -> Iterator[bytes]:
        return (bytes([i]) * _length(i) for i in range(120))


def _length(row: int) -> int:
    return 512 * ROW + row // 50 * 8


def test_blocks_are_right_where_they_are_alike_and_where_not(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=1, worker_flags=["--allow-code"])
    lengths = []
    for i, row in enumerate(Dataset.from_python(_Changing()).distribute(cluster.address)):
        assert row.count(i) == len(row)
        lengths.append(len(row))
    assert lengths == [_length(i) for i in range(120)]
