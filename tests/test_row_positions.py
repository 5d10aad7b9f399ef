"""Positions where elements are rows one by one: they come in runs, and a loop may stand within one when another asks."""

from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset

ROWS = 2000


def _reader(address: str, **place: int) -> penstock.Reader:
    return Dataset.from_range(ROWS).distribute(address, job_name="rows", even="uneven", **place)


def _taken(rows: Any, count: int) -> list[int]:
    return [int(row) for row in islice(rows, count)]


def _rest(state: dict[str, Any]) -> list[int]:
    with Dataset.from_range(ROWS).distribute("inline") as reader:
        reader.load_state_dict(state)
        return [int(row) for row in reader]


def test_a_state_has_no_row_that_another_consumer_was_not_handed(start_cluster: StartCluster) -> None:
    address = start_cluster(1).address
    with _reader(address) as asker, _reader(address) as other:
        had = _taken(iter(other), 14) + _taken(iter(asker), 5)
        state = asker.state_dict()
    assert sorted(had + _rest(state)) == list(range(ROWS))


def test_a_rank_within_a_run_answers_when_its_loop_has_come_to_the_step(start_cluster: StartCluster) -> None:
    address = start_cluster(1).address
    with _reader(address, consumer_index=0, num_consumers=2) as behind, _reader(address, consumer_index=1, num_consumers=2) as ahead:
        rows = iter(behind)
        had = _taken(rows, 5) + _taken(iter(ahead), 30)
        with pytest.raises(penstock.Error, match="step 30"):
            ahead.state_dict(timeout=0.5)
        with ThreadPoolExecutor(1) as pool:
            saving = pool.submit(ahead.state_dict)
            had += _taken(rows, 25)
            state = saving.result(timeout=30)
    assert sorted(had + _rest(state)) == list(range(ROWS))
