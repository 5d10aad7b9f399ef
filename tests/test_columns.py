"""What elements are: numpy over the batch's memory, strings, ragged and nested structures."""

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import penstock
from penstock import Dataset, Ragged, Spec

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def _one(dataset: Dataset) -> Any:
    (batch,) = dataset.distribute("inline")
    return batch


@pytest.mark.parametrize("dtype", [*DTYPES, ml_dtypes.bfloat16])
def test_values_of_each_dtype_come_back(dtype: Any) -> None:
    values = np.array([0, 1, 1, 0, 1, 1]).reshape(3, 2).astype(dtype)
    batch = _one(Dataset.from_arrays({"x": values}).batch(3))
    assert batch["x"].dtype == values.dtype
    assert np.array_equal(batch["x"], values)


@pytest.mark.parametrize("dtype", [">i4", ">f8", ">c8", "<u2"])
def test_values_of_either_byte_order_are_the_same_values(dtype: str) -> None:
    values = np.arange(6).astype(dtype)
    ragged = Ragged(values, (np.array([0, 1, 6]),))
    batch = _one(Dataset.from_arrays({"x": values[:2], "r": ragged}).map(lambda row: {**row, "m": row["x"].astype(dtype)}).batch(2))
    assert batch["x"].tolist() == batch["m"].tolist() == [0, 1]
    assert batch["r"].to_list() == [[0], [1, 2, 3, 4, 5]]
    assert batch["x"].dtype == values.dtype.newbyteorder("=")


def test_arrays_are_writable_views_that_outlive_reader_and_batch() -> None:
    reader = Dataset.from_range(1000).batch(1000).distribute("inline")
    (batch,) = reader
    view = batch[10:20]
    reader.close()
    del reader, batch
    gc.collect()
    assert view.tolist() == list(range(10, 20))
    assert not view.flags.owndata
    view[0] = -1


def test_strings_are_object_arrays_of_bytes() -> None:
    batch = _one(Dataset.from_arrays({"s": np.array([[b"a", b""], [b"\0b\xff", b"ccc"]], object)}).batch(2))
    assert batch["s"].dtype == object
    assert batch["s"].tolist() == [[b"a", b""], [b"\0b\xff", b"ccc"]]


def test_ragged_columns_come_as_values_and_offsets() -> None:
    column = Ragged(np.arange(6, dtype=np.float32), (np.array([0, 2, 2, 6]),))
    batch = _one(Dataset.from_arrays({"x": column}).batch(3))
    assert isinstance(batch["x"], Ragged)
    assert batch["x"].to_list() == [[0, 1], [], [2, 3, 4, 5]]
    assert batch["x"].offsets[0].tolist() == [0, 2, 2, 6]


def test_ragged_strings_nest() -> None:
    column = Ragged(np.array([b"a", b"bb", b""], object), (np.array([0, 1, 3]),))
    batch = _one(Dataset.from_arrays({"x": column}).batch(2))
    assert batch["x"].to_list() == [[b"a"], [b"bb", b""]]


def test_nested_structures_are_rebuilt() -> None:
    arrays = {"a": ([1, 2], {"b": [3.0, 4.0]}), "c": {"d": {"e": ["x", "y"]}}}
    batch = _one(Dataset.from_arrays(arrays).batch(2))
    assert batch["a"][0].tolist() == [1, 2]
    assert batch["a"][1]["b"].tolist() == [3.0, 4.0]
    assert batch["c"]["d"]["e"].tolist() == [b"x", b"y"]


def test_rows_of_an_unbatched_dataset_are_scalars_and_views() -> None:
    rows = list(Dataset.from_arrays({"x": [1, 2], "y": np.eye(2)}))
    assert [row["x"] for row in rows] == [1, 2]
    assert isinstance(rows[0]["x"], np.int64)
    assert rows[1]["y"].tolist() == [0.0, 1.0]


def test_an_empty_dataset_has_no_elements() -> None:
    assert list(Dataset.from_range(0)) == []
    assert list(Dataset.from_arrays({"x": np.zeros((0, 3))}).batch(2)) == []


def test_element_spec_is_what_the_loop_sees() -> None:
    dataset = Dataset.from_arrays({"x": np.zeros((4, 3), np.float32), "s": ["a"] * 4})
    assert dataset.element_spec == {"x": Spec(np.dtype("float32"), (3,)), "s": Spec(np.dtype(object), ())}
    assert dataset.batch(2, drop_remainder=True).element_spec == {"x": Spec(np.dtype("float32"), (2, 3)), "s": Spec(np.dtype(object), (2,))}
    assert dataset.batch(2).element_spec["x"].shape == (None, 3)  # type: ignore[index,call-overload,union-attr]


def test_provenance_says_which_rows_a_batch_is_made_of() -> None:
    with Dataset.from_range(100).batch(10).distribute("inline") as reader:
        batches = list(reader)
        pieces = [piece for batch in batches for piece in reader.provenance(batch)]
        assert [piece.rows for piece in pieces] == [10] * 10
        assert len({(piece.lane, piece.first) for piece in pieces}) == 10
        assert all(piece.end[0] - piece.first[0] == 10 for piece in pieces)
        with pytest.raises(penstock.NotFound, match="copy"):
            reader.provenance(batches[3].copy())


def test_stats_count_rows_and_batches() -> None:
    with Dataset.from_range(95).batch(10).distribute("inline") as reader:
        assert len(list(reader)) == 10
        stats = reader.stats()
    assert (stats.rows, stats.batches) == (95, 10)
    assert stats.bytes >= 95 * 8


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"a": [1, 2], "b": [1]}, "a: 2, b: 1"),
        ({}, "no arrays"),
        ({"a": 3}, "a is a single value"),
        ({"a": [object()]}, "a holds object"),
        ([[1], [2, 3]], "the array has rows of differing length; give a Ragged"),
        ({1: [1]}, "a name in the dict=1"),
        ({"a": {1: [1]}}, "a name in a=1"),
        (np.ma.masked_array([1, 2], mask=[True, False]), "the array is masked"),
    ],
)
def test_arrays_that_cannot_be_rows_are_refused(arrays: Any, words: str) -> None:
    with pytest.raises(penstock.Invalid, match=words):
        Dataset.from_arrays(arrays)
