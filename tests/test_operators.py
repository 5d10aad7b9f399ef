"""Plans read in this process mean what the model says."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from model import operators as ops
from model.plans import Case, plain, plans, sortable, unbatched
from penstock import Dataset


def _rows(dataset: Dataset, **options: Any) -> list[Any]:
    return [plain(row) for row in dataset.distribute("inline", **options)]


@given(case=plans())
@settings(max_examples=300)
def test_a_random_plan_gives_the_rows_of_the_model(case: Case) -> None:
    assert sorted(_rows(case.dataset), key=sortable) == sorted(case.rows, key=sortable), case.words


@given(case=plans(), n=st.integers(1, 20), drop=st.booleans())
@settings(max_examples=200)
def test_a_random_plan_in_batches_gives_full_batches_but_one(case: Case, n: int, drop: bool) -> None:
    batches = [unbatched(batch) for batch in case.dataset.batch(n, drop_remainder=drop).distribute("inline")]
    sizes = [len(batch) for batch in batches]
    whole, rest = divmod(len(case.rows), n)
    assert sorted(sizes, reverse=True) == [n] * whole + [rest] * (rest > 0 and not drop), case.words
    if not drop:
        assert sorted((r for b in batches for r in b), key=sortable) == sorted(case.rows, key=sortable), case.words


@given(case=plans(), n=st.integers(1, 20), drop=st.booleans())
def test_cardinality_is_never_wrong(case: Case, n: int, drop: bool) -> None:
    assert case.dataset.cardinality() in (len(case.rows), penstock.UNKNOWN_CARDINALITY), case.words
    batched = case.dataset.batch(n, drop_remainder=drop).cardinality()
    assert batched in (len(ops.batch(case.rows, n, drop)), penstock.UNKNOWN_CARDINALITY), case.words


@given(rows=st.integers(0, 500), buffer_size=st.integers(1, 600), seed=st.integers(0, 3))
def test_shuffle_keeps_each_row_and_repeats_itself_for_a_seed(rows: int, buffer_size: int, seed: int) -> None:
    dataset = Dataset.from_range(rows).shuffle(buffer_size)
    once = _rows(dataset, seed=seed)
    assert sorted(once) == list(range(rows))
    assert _rows(dataset, seed=seed) == once


def test_shuffle_mixes_and_differs_by_seed_and_epoch() -> None:
    dataset = Dataset.from_range(1000).shuffle(1000)
    with dataset.distribute("inline", epochs=2, seed=1) as reader:
        first, second = list(map(int, reader)), list(map(int, reader))
    assert sorted(first) == sorted(second) == list(range(1000))
    assert first != second
    assert first != _rows(dataset, seed=2)
    assert first != list(range(1000))


def test_take_after_shuffle_gives_as_many_as_asked() -> None:
    rows = _rows(Dataset.from_range(1000).shuffle(100).take(10))
    assert len(set(rows)) == 10


def test_enumerate_after_shuffle_counts_from_zero() -> None:
    pairs = _rows(Dataset.from_range(100).shuffle(100).enumerate())
    assert sorted(number for number, _ in pairs) == list(range(100))
    assert sorted(row for _, row in pairs) == list(range(100))


def test_operators_that_nothing_reorders_keep_the_order() -> None:
    assert _rows(Dataset.from_range(10, 0, -3)) == [10, 7, 4, 1]
    assert _rows(Dataset.from_range(5).concatenate(Dataset.from_range(2))) == [0, 1, 2, 3, 4, 0, 1]
    assert _rows(Dataset.from_range(5).zip(Dataset.from_range(3), Dataset.from_range(10, 20))) == [(0, 0, 10), (1, 1, 11), (2, 2, 12)]


def test_project_keeps_the_named_columns_in_their_order() -> None:
    dataset = Dataset.from_arrays({"a": [1, 2], "b": [3.0, 4.0], "c": {"d": [5, 6]}}).project(["b", "a"])
    assert _rows(dataset) == [{"b": 3.0, "a": 1}, {"b": 4.0, "a": 2}]


def test_a_batch_in_mid_plan_is_a_row_of_its_own() -> None:
    batches = _rows(Dataset.from_range(10).batch(2, drop_remainder=True).take(2).batch(2))
    assert batches == [[[0, 1], [2, 3]]]


def test_padded_batch_pads_to_the_longest_row_of_the_batch() -> None:
    ragged = penstock.Ragged(np.arange(1, 7), (np.array([0, 1, 3, 6]),))
    batches = [plain(b) for b in Dataset.from_arrays({"x": ragged}).padded_batch(2).distribute("inline")]
    assert sorted(batches, key=repr) == sorted([{"x": [[1, 0], [2, 3]]}, {"x": [[4, 5, 6]]}], key=repr)


def test_each_iteration_is_an_epoch_and_no_more_than_asked() -> None:
    with Dataset.from_range(3).distribute("inline", epochs=2) as reader:
        assert [len(list(reader)), len(list(reader))] == [3, 3]
        with pytest.raises(penstock.Finished, match="2 epoch"):
            iter(reader)


def test_without_epochs_each_iteration_goes_on() -> None:
    with Dataset.from_range(3).distribute("inline", epochs=None) as reader:
        assert [len(list(reader)) for _ in range(5)] == [3] * 5


def test_leaving_a_loop_early_starts_the_next_epoch_afresh() -> None:
    with Dataset.from_range(100).distribute("inline", epochs=2) as reader:
        for _ in reader:
            break
        assert sorted(map(int, reader)) == list(range(100))


@pytest.mark.parametrize("batch", [None, 4])
def test_an_older_iteration_raises_an_error_instead_of_taking_the_newer_one_s_rows(batch: int | None) -> None:
    dataset = Dataset.from_range(20)
    with (dataset if batch is None else dataset.batch(batch)).distribute("inline", epochs=2) as reader:
        older = iter(reader)
        next(older)
        newer = iter(reader)
        with pytest.raises(penstock.Invalid, match="this iteration is over: another iteration of this dataset was begun"):
            next(older)
        assert sorted(int(i) for element in newer for i in np.atleast_1d(element)) == list(range(20))


def test_an_iteration_goes_on_where_the_next_one_finds_no_more_epochs() -> None:
    with Dataset.from_range(20).distribute("inline", epochs=1) as reader:
        rows = iter(reader)
        assert int(next(rows)) == 0
        with pytest.raises(penstock.Finished):
            iter(reader)
        assert [int(i) for i in rows] == list(range(1, 20))


def test_an_iteration_goes_on_where_a_state_could_not_be_loaded() -> None:
    with Dataset.from_range(20).distribute("inline") as reader:
        rows = iter(reader)
        assert int(next(rows)) == 0
        with pytest.raises(penstock.Invalid):
            reader.load_state_dict({"no": "state"})
        assert [int(i) for i in rows] == list(range(1, 20))


def test_an_older_iteration_that_has_ended_stays_ended() -> None:
    with Dataset.from_range(3).distribute("inline", epochs=2) as reader:
        older = iter(reader)
        assert len(list(older)) == 3
        assert len(list(reader)) == 3
        assert list(older) == []


def test_an_iteration_from_before_a_state_was_loaded_is_over() -> None:
    with Dataset.from_range(9).batch(3).distribute("inline") as reader:
        before = iter(reader)
        next(before)
        reader.load_state_dict(reader.state_dict())
        with pytest.raises(penstock.Invalid, match="a state was loaded"):
            next(before)
        assert sum(len(batch) for batch in reader) == 6


def test_a_dataset_is_its_own_inline_reader() -> None:
    assert [int(x) for x in Dataset.from_range(3)] == [0, 1, 2]
    assert Dataset.from_range(3).distribute("off").cardinality() == 3


def test_the_fingerprint_is_the_plan_s() -> None:
    assert Dataset.from_range(3).take(2).fingerprint() == Dataset.from_range(3).take(2).fingerprint()
    assert Dataset.from_range(3).take(2).fingerprint() != Dataset.from_range(3).take(1).fingerprint()


def test_explain_names_each_operator_and_how_it_meets_lanes() -> None:
    words = Dataset.from_range(100).shuffle(10).take(5).batch(2).explain()
    for name in ("range", "shuffle", "take", "batch", "count", "order"):
        assert name in words
