"""Rows kept by a condition, which workers evaluate without Python."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from conftest import StartCluster
from penstock import Dataset, col, random
from support.data import Records

_ROWS = 200
_COLUMNS = {
    "id": np.arange(_ROWS),
    "share": (np.arange(_ROWS) % 7 / np.float32(10)).astype(np.float32),
    "click": np.arange(_ROWS) % 3 == 0,
    "user": {"name": np.array([b"user %d" % (i % 5) for i in range(_ROWS)], object)},
    "wide": np.zeros((_ROWS, 3), np.uint8),
}


def _ids(dataset: Dataset, service: Any = "inline", **options: Any) -> list[int]:
    with dataset.batch(16).distribute(service, **options) as reader:
        return sorted(int(i) for batch in reader for i in batch["id"])


@given(
    sign=st.sampled_from([operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]),
    other=st.sampled_from([operator.eq, operator.ge]),
    bound=st.integers(-3, _ROWS),
    share=st.sampled_from([0.1, 0.3, 0.55]),
    joined=st.sampled_from([operator.and_, operator.or_]),
    inverted=st.booleans(),
)
def test_a_condition_keeps_the_rows_that_numpy_would(sign: Any, other: Any, bound: int, share: float, joined: Any, inverted: bool) -> None:
    condition = joined(sign(col("id"), bound), other(col("share"), share))
    mask = joined(sign(_COLUMNS["id"], bound), other(_COLUMNS["share"], share))
    if inverted:
        condition, mask = ~condition, ~mask
    assert _ids(Dataset.from_arrays(_COLUMNS).filter(condition)) == np.flatnonzero(mask).tolist(), condition


@pytest.mark.parametrize(
    ("condition", "mask"),
    [
        (col("click") == True, _COLUMNS["click"]),  # noqa: E712
        (col("user/name") == "user 2", np.arange(_ROWS) % 5 == 2),
        (col("user/name").isin([b"user 1", "user 4"]), np.isin(np.arange(_ROWS) % 5, [1, 4])),
        (col("id").isin(range(0, 50, 7)), np.isin(np.arange(_ROWS), range(0, 50, 7))),
        (col("share").isin([0.2, 0.6]), np.isin(np.arange(_ROWS) % 7, [2, 6])),
        (col("id").isin([]), np.zeros(_ROWS, bool)),
        (col("id") > col("share"), np.arange(_ROWS) > 0),
        (col("id") < np.int64(4), np.arange(_ROWS) < 4),
    ],
)
def test_bools_strings_sets_and_other_columns(condition: penstock.Condition, mask: Any) -> None:
    assert _ids(Dataset.from_arrays(_COLUMNS).filter(condition)) == np.flatnonzero(mask).tolist()


def test_rows_that_are_one_value_have_a_column_without_a_name() -> None:
    assert [int(row) for row in Dataset.from_range(10).filter(col() >= 7)] == [7, 8, 9]


def test_drawn_rows_are_the_same_whoever_reads_them(records: Records, start_cluster: StartCluster) -> None:
    dataset = records.dataset().shuffle(100).filter((col("file") == 0) | (random() < 0.25))
    alone = _ids(dataset, seed=3)
    whole_file = {i for i in alone if i < records.rows // len(records.files)}
    assert len(whole_file) == records.rows // len(records.files), "every row of file 0"
    assert 0.2 < (len(alone) - len(whole_file)) / (records.rows - len(whole_file)) < 0.3
    for workers in (1, 3):
        assert _ids(dataset, start_cluster(workers=workers).address, seed=3) == alone
    assert _ids(dataset, seed=4) != alone


def test_a_filtered_epoch_goes_on_in_the_middle(records: Records, start_cluster: StartCluster) -> None:
    service = start_cluster().address
    dataset = records.dataset().shuffle(50).filter(random() < 0.5).batch(8)
    with dataset.distribute("inline", processing_mode="strict", num_consumers=1, consumer_index=0, seed=5) as reader:
        whole = [batch["id"].tolist() for batch in reader]
    with dataset.distribute(service, processing_mode="strict", num_consumers=1, consumer_index=0, seed=5) as reader:
        batches = iter(reader)
        begun = [next(batches)["id"].tolist() for _ in range(len(whole) // 2)]
        state = reader.state_dict()
    with dataset.distribute(service, processing_mode="strict", num_consumers=1, consumer_index=0, seed=5) as reader:
        reader.load_state_dict(state)
        rest = [batch["id"].tolist() for batch in reader]
    assert begun + rest == whole


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Dataset.from_arrays(_COLUMNS).filter(col("clicks") == True).element_spec, penstock.Invalid, "no column 'clicks'"),  # noqa: E712
        (lambda: Dataset.from_arrays(_COLUMNS).filter(col("wide") > 1).element_spec, penstock.Invalid, "many values a row"),
        (lambda: Dataset.from_arrays(_COLUMNS).filter(col("id") > "7").element_spec, penstock.Invalid, "id > '7' compares what differs in kind"),
        (lambda: Dataset.from_arrays(_COLUMNS).filter(col("click") > True).element_spec, penstock.Invalid, "truths have no order"),
        (lambda: Dataset.from_arrays(_COLUMNS).filter(col("click")), penstock.Invalid, "a condition such as"),
        (lambda: col("id") > [1], penstock.Invalid, "a number"),
        (lambda: col("id").isin(["a", 1]), penstock.Invalid, "numbers, or strings"),
        (lambda: col("name") == b"\xff", penstock.Invalid, "not UTF-8"),
        (lambda: (col("id") > 1) and (col("id") < 3), TypeError, "join conditions with &"),
        (lambda: (col("id") > 1) & True, TypeError, "another condition"),
        (lambda: 1 < col("id") < 3, TypeError, "join conditions with &"),
        (lambda: bool(col("click")), TypeError, "== True"),
    ],
)
def test_a_condition_that_cannot_be_is_refused_by_name(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words.replace("(", r"\(")):
        make()
