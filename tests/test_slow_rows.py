"""Rows that are made do not wait for others that take long."""

import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import penstock
from penstock import Dataset
from penstock._executor import runner, stages

TAKES = 0.5  # seconds of the clock below
QUICK = 3  # rows before the first that takes so long


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that rows move on. It is in the environment: code in a plan is a copy, and has variables of its own."""
    monkeypatch.setenv("TEST_CLOCK", "0")
    held = SimpleNamespace(monotonic=lambda: float(os.environ["TEST_CLOCK"]))
    monkeypatch.setattr(runner, "time", held)
    monkeypatch.setattr(stages, "time", held)


def _slow(i: Any) -> int:
    if i >= QUICK:
        os.environ["TEST_CLOCK"] = str(float(os.environ["TEST_CLOCK"]) + TAKES)
    return int(i)


def _numbers() -> Iterator[int]:
    return map(_slow, range(40))


def _of_source() -> Dataset:
    return Dataset.from_python(_numbers, spec=penstock.Spec(np.int64, ()))


def _of_function() -> Dataset:
    return Dataset.from_python(lambda: range(40), spec=penstock.Spec(np.int64, ())).map(_slow, spec=penstock.Spec(np.int64, ()))


def _of_two_functions() -> Dataset:
    return _of_function().flat_map(lambda i: [i], spec=penstock.Spec(np.int64, ()))


@pytest.mark.parametrize("dataset", [_of_source, _of_function, _of_two_functions])
def test_whole_groups_are_told_before_another_slow_row_is_begun(dataset: Callable[[], Dataset]) -> None:
    plan = dataset()._plan
    lanes = runner.Runner(plan.serialize())
    nodes = list(range(len(plan.nodes())))
    lanes.open(1, {"nodes": nodes, "seed": 1, "epoch": 0, "replica": 0, "ordinal": 0, "from_seq": 0, "from_child": 0, "part": 0, "parts": 1})
    want = {"target": 1 << 20, "cap": 1 << 21, "group": 2, "phase": 0, "by_group": False, "to": 1 << 40}
    got: list[int] = []
    blocks: list[int] = []
    while not (told := lanes.fill(1, want, None, False))["ended"]:
        *_, values = lengths = [16 * told["rows"]] * told["has_cursors"] + told["lengths"]
        memory = bytearray(sum(lengths))
        lanes.write(1, [[sum(lengths[:i]), length] for i, length in enumerate(lengths)], memoryview(memory))
        got += np.frombuffer(memory[-values:], np.int64).tolist()
        blocks.append(told["rows"])
    assert got == list(range(40))
    assert blocks == [4] + [2] * 18, "the quick ones with the first that was slow"


def test_what_a_source_raises_comes_after_its_rows() -> None:
    def breaks() -> Iterator[int]:
        yield from range(10)
        raise OSError("the source is broken")

    got: list[int] = []
    spec = penstock.Spec(np.int64, ())
    with pytest.raises(penstock.ExecutorError, match="the source is broken") as raised:
        got.extend(Dataset.from_python(breaks, spec=spec).map(_slow, spec=spec))
    assert got == list(range(10))
    assert raised.value.seq == 10
