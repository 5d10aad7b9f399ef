"""What one row is, to the loop and to functions alike, inline and on workers: an array where it came as one, else `Ragged`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset, Ragged, Spec
from support.cluster import TestCluster

VARYING = Spec("uint8", (None, None, 3))


@pytest.fixture
def cluster(start_cluster: StartCluster) -> TestCluster:
    return start_cluster(1, worker_flags=["--allow-code"])


def _image(x: Any) -> Any:
    return np.full((int(x) + 1, int(x) + 2, 3), x, np.uint8)


def _lists() -> Dataset:
    return Dataset.from_range(6).map(lambda x: np.arange(int(x)), spec=Spec("int64", (None,)))


def _first(element: Any) -> Any:
    return _first(element[0]) if isinstance(element, tuple) else element


AFTER_PADDING: dict[str, Callable[[Dataset], Dataset]] = {
    "nothing": lambda padded: padded,
    "take": lambda padded: padded.take(2),
    "skip": lambda padded: padded.skip(0),
    "shuffle": lambda padded: padded.shuffle(2),
    "filter": lambda padded: padded.filter(lambda batch: batch.ndim == 2),
    "map": lambda padded: padded.map(lambda batch: batch + 0),
    "zip": lambda padded: padded.zip(Dataset.from_range(2)),
    "concatenate": lambda padded: padded.concatenate(padded).take(2),
}


@pytest.mark.parametrize("name", AFTER_PADDING)
def test_a_padded_batch_is_an_array_whatever_comes_after_it(name: str, cluster: TestCluster) -> None:
    dataset = AFTER_PADDING[name](_lists().padded_batch(3))
    padded = [[[0, 0], [0, 0], [0, 1]], [[0, 1, 2, 0, 0], [0, 1, 2, 3, 0], [0, 1, 2, 3, 4]]]
    for service in ("inline", cluster.address):
        batches = [_first(element) for element in dataset.distribute(service)]
        assert {type(batch) for batch in batches} == {np.ndarray}
        assert sorted(batch.tolist() for batch in batches) == padded


def test_a_padded_batch_with_its_number_is_an_array() -> None:
    assert [batch.shape for _, batch in _lists().padded_batch(3).enumerate()] == [(3, 2), (3, 5)]


def test_batches_of_ragged_rows_are_ragged_also_where_their_lengths_agree(cluster: TestCluster) -> None:
    batches = _lists().batch(5).take(2)
    for dataset in (batches, batches.map(lambda batch: batch), batches.filter(lambda batch: len(batch.offsets) == 1)):
        for service in ("inline", cluster.address):
            assert [(type(batch), batch.to_list()[-1]) for batch in dataset.distribute(service)] == [
                (Ragged, [0, 1, 2, 3]),
                (Ragged, [0, 1, 2, 3, 4]),
            ]


SEEN_BY_A_FUNCTION: dict[str, Callable[[Dataset], Dataset]] = {
    "at once": lambda images: images,
    "after a shuffle": lambda images: images.shuffle(3),
    "after a count": lambda images: images.take(6),
    "beside others": lambda images: images.zip(Dataset.from_range(6)).map(lambda row: row[0]),
}


@pytest.mark.parametrize("spec", [None, VARYING], ids=["inferred", "declared"])
@pytest.mark.parametrize("name", SEEN_BY_A_FUNCTION)
def test_images_of_differing_size_are_arrays_to_functions_and_to_the_loop(name: str, spec: Any, cluster: TestCluster) -> None:
    images = SEEN_BY_A_FUNCTION[name](Dataset.from_range(6).map(_image, spec=spec))
    cropped = images.map(lambda image: image[:1, :1]).batch(2)
    assert cropped.element_spec == Spec(np.dtype(np.uint8), (None, 1, 1, 3))
    for service in ("inline", cluster.address):
        assert sorted(image.shape for image in images.distribute(service)) == [(i + 1, i + 2, 3) for i in range(6)]
        assert [batch.shape for batch in cropped.distribute(service)] == [(2, 1, 1, 3)] * 3


def test_map_batch_sees_the_same_rows_behind_a_batch_as_without_one(cluster: TestCluster) -> None:
    images = Dataset.from_range(6).map(_image)
    for dataset in (images.shuffle(3).map_batch(_heights, 4), images.shuffle(3).batch(6).map_batch(_heights, 4)):
        for service in ("inline", cluster.address):
            assert sorted(np.hstack(list(dataset.distribute(service))).tolist()) == [1, 2, 3, 4, 5, 6]


def _heights(images: Any) -> Any:
    return np.array([image.shape[0] for image in images])


def test_rows_whose_lengths_differ_within_are_ragged(cluster: TestCluster) -> None:
    sentences = Dataset.from_range(3).map(lambda x: [list(range(int(x))), [7]]).shuffle(3)
    lengths = sentences.map(lambda words: len(words[0]))
    for service in ("inline", cluster.address):
        assert {type(row) for row in sentences.distribute(service)} == {Ragged}
        assert sorted(map(int, lengths.distribute(service))) == [0, 1, 2]


@pytest.mark.parametrize("spec", [None, Spec("int64", (None,))], ids=["inferred", "declared"])
def test_an_empty_list_is_of_the_dtype_of_the_others(spec: Any, cluster: TestCluster) -> None:
    dataset = Dataset.from_range(6).map(lambda x: list(range(int(x) % 3)), spec=spec)
    assert dataset.element_spec == Spec(np.dtype(np.int64), (None,))
    for service in ("inline", cluster.address):
        assert sorted(row.tolist() for row in dataset.distribute(service)) == [[], [], [0], [0], [0, 1], [0, 1]]


def test_an_empty_list_has_the_inner_dimensions_of_the_others() -> None:
    dataset = Dataset.from_range(3).map(lambda x: [[1.5, 2.5]] * int(x))
    assert dataset.element_spec == Spec(np.dtype(np.float64), (None, 2))
    assert [row.shape for row in dataset] == [(0, 2), (1, 2), (2, 2)]


def test_lists_that_are_all_empty_need_a_spec() -> None:
    with pytest.raises(penstock.Invalid, match="an empty list in all of the first rows.*give spec="):
        Dataset.from_range(20).map(lambda x: list(range(int(x) - 19))).element_spec  # noqa: B018
