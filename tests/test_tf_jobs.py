"""penstock.tf: jobs by name, whose n-th epoch is the n-th iteration of each dataset that reads them, whenever it comes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import StartCluster

pytestmark = [pytest.mark.xdist_group("tensorflow"), pytest.mark.timeout(300)]

ALL = list(range(6))


@pytest.fixture(params=["op", "python"])
def named(tf: Any, service: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, start_cluster: StartCluster) -> Callable[..., Any]:
    """named("parallel_epochs"): another dataset over the one job, as a trainer of its own has it."""
    if request.param == "python":
        monkeypatch.setenv("PENSTOCK_TF_OP", "0")
    address = start_cluster(1, worker_flags=["--allow-code"]).address
    return lambda policy="distributed_epoch": tf.data.Dataset.range(6).apply(service.distribute(policy, address, job_name="train"))


@pytest.mark.parametrize(
    ("repeated", "policy", "job_name", "expected"),
    [
        (None, "distributed_epoch", None, -1),
        (None, "distributed_epoch", "endless", -1),
        (None, "parallel_epochs", None, -1),
        (0, "distributed_epoch", None, 0),
        (0, "parallel_epochs", None, 0),
        (1, "distributed_epoch", None, -2),
        (1, "parallel_epochs", None, -2),
    ],
)
def test_nothing_and_for_ever_stay_what_they_are(
    tf: Any, service: Any, start_cluster: StartCluster, repeated: int | None, policy: str, job_name: str | None, expected: int
) -> None:
    address = start_cluster(1, worker_flags=["--allow-code"]).address
    made = tf.data.Dataset.range(6).repeat(repeated).apply(service.distribute(policy, address, job_name=job_name))
    assert int(made.cardinality()) == expected
    assert read(made.take(12)) == {-1: sorted(ALL * 2), 0: [], -2: ALL}[expected]


def read(dataset: Any) -> list[int]:
    return sorted(int(i) for i in dataset)


@pytest.mark.parametrize("policy", ["distributed_epoch", "parallel_epochs"])
def test_a_trainer_that_comes_late_finds_epochs_that_are_over_empty(named: Callable[..., Any], policy: str) -> None:
    first, late = named(policy), named(policy)
    assert read(first) == ALL
    assert read(late) == [], "its first iteration is epoch 0, which was read"
    assert read(late) == ALL, "and its second is epoch 1"
    assert read(first) == []
    newest = named(policy)
    assert [read(newest) for _ in range(3)] == [[], [], ALL]


def test_what_was_saved_of_an_iteration_that_is_over_goes_on_with_the_next(tf: Any, named: Callable[..., Any], tmp_path: Path) -> None:
    first, late = named(), named()
    assert read(first) == ALL
    iterator = iter(late)
    assert list(iterator) == []
    try:
        saved = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "c"))
    except tf.errors.OpError:
        pytest.skip("iterators by way of Python are not saved")
    resumed = iter(late)
    tf.train.Checkpoint(iterator=resumed).restore(saved).assert_consumed()
    assert list(resumed) == []
    assert read(late) == ALL
