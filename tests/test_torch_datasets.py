"""penstock.torch: what a loader takes for a dataset, its arguments where they are given as torch's, and what it says of itself."""

from typing import Any

import pytest
import torch

import penstock
from conftest import StartCluster
from penstock import Dataset, Spec
from penstock.torch import DataLoader, IterableDataset


class Duck:
    """Like a dataset, and of no class of torch."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> int:
        return i


class DuckStream:
    def __iter__(self) -> Any:
        return iter(range(8))


class IntegersThenHalves(Duck):
    def __getitem__(self, i: int) -> Any:
        return i if i % 2 == 0 else i + 0.5


def _rows(loader: Any) -> list[Any]:
    return [row for batch in loader for row in (batch.tolist() if isinstance(batch, torch.Tensor) else batch)]


# ---- datasets


@pytest.mark.parametrize("dataset", [Duck(), DuckStream(), list(range(8)), range(8), torch.arange(8)], ids=lambda dataset: type(dataset).__name__)
@pytest.mark.parametrize("kind", [DataLoader, IterableDataset])
def test_what_torch_takes_for_a_dataset_is_one(dataset: Any, kind: Any) -> None:
    assert _rows(kind(dataset, batch_size=4, service="inline")) == list(range(8))


def test_it_goes_to_workers_too(start_cluster: StartCluster) -> None:
    address = start_cluster(1, worker_flags=["--allow-code"]).address
    questions = [{"q": f"q{i}", "z": [i, i]} for i in range(8)]
    for dataset in (Duck(), DuckStream(), []):
        assert _rows(DataLoader(dataset, 4, service=address)) == list(range(8 if dataset != [] else 0))
    batches = list(DataLoader(questions, 4, service=address))
    assert [name for batch in batches for name in batch["q"]] == [row["q"] for row in questions]


def test_an_iterator_is_refused_since_it_is_over_after_an_epoch() -> None:
    with pytest.raises(penstock.Invalid, match="list_iterator is an iterator, .*give what it iterates"):
        DataLoader(iter([1, 2]), service="inline")


@pytest.mark.parametrize("drop_last", [True, False])
def test_a_dataset_without_rows_has_no_batches(drop_last: bool) -> None:
    loader = DataLoader([], 4, drop_last=drop_last, service="inline")
    assert len(loader) == 0
    assert list(loader) == []


def test_rows_that_the_first_ones_do_not_show_are_said_by_a_spec() -> None:
    with pytest.raises(penstock.Invalid, match=r"give spec= to penstock\.torch's loader, or to Dataset\.from_torch"):
        DataLoader(IntegersThenHalves(), 4, service="inline")
    for kind in (DataLoader, IterableDataset):
        assert _rows(kind(IntegersThenHalves(), 4, service="inline", spec=Spec("float64", ()))) == [0, 1.5, 2, 3.5, 4, 5.5, 6, 7.5]
    with pytest.raises(penstock.Invalid, match="a Dataset says it itself"):
        DataLoader(Dataset.from_range(4), 2, service="inline", spec=Spec("int64", ()))


# ---- arguments and attributes


def test_arguments_without_names_are_torch_s() -> None:
    loader = DataLoader(Duck(), 3, None, None, None, 2, list, False, False, 0, None, service="inline")  # type: ignore[arg-type, misc]
    assert list(loader) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    with pytest.raises(penstock.Invalid, match="sampler is torch's"):
        DataLoader(Duck(), 3, False, torch.utils.data.SequentialSampler(Duck()), service="inline")  # type: ignore[misc]
    with pytest.raises(TypeError, match="multiple values for argument 'num_workers'"):
        DataLoader(Duck(), 3, False, None, None, 2, num_workers=2, service="inline")  # type: ignore[misc]
    with pytest.raises(penstock.Invalid, match="12 arguments without names; torch's take 11 so"):
        DataLoader(Duck(), 3, False, None, None, 2, None, False, False, 0, None, "inline")  # type: ignore[misc]


def test_a_loader_says_what_it_was_given() -> None:
    dataset = Duck()
    loader = DataLoader(dataset, 3, collate_fn=list, num_workers=2, pin_memory=True, prefetch_factor=4, timeout=5, service="inline")
    assert loader.dataset is dataset
    assert len(loader.dataset) == 8
    assert len(loader) == 2
    names = ("batch_size", "drop_last", "num_workers", "collate_fn", "pin_memory", "prefetch_factor", "timeout", "sampler", "batch_sampler")
    assert [getattr(loader, name) for name in names] == [3, True, 2, list, True, 4, 5, None, None]
    assert DataLoader(dataset, service="inline").batch_size is None, "its default: rows"
