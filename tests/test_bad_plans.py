"""Plans and options that cannot be read with are refused, by this process and by the service, in words that name what is wrong."""

import os
from typing import Any

import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset, Fixed, _core


def _planned(op: str, **attrs: int) -> Dataset:
    """Past the checks of Dataset's methods."""
    return Dataset(_core.Plan.over([Dataset.from_range(5)._plan], op, attrs))


_HUGE = {"name": "a", "dtype": "uint8", "shape": [2**22], "values": b""}  # so many that their product with the rows is 0


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (_planned("batch", n=0), "batch"),
        (Dataset(_core.Plan.over([], "range", {"start": 0, "stop": 5, "step": 0})), "step"),
        (_planned("shuffle", buffer_size=0), "buffer_size"),
        (_planned("shard", num=2, index=2), "index"),
        (_planned("skip", count=-1), "skip"),
        (Dataset.from_range(5).parse_example({"id": "int64"}), "parse_example"),
        (Dataset.from_arrays({"a": [1]}).project(["b"]), "b"),
        (Dataset.from_range(5).concatenate(Dataset.from_arrays({"a": [1]})), "concatenate"),
        (Dataset(_core.Plan.over([], "nonsense", {})), "nonsense"),
        (Dataset(_core.Plan.over([], "range", {"stop": 1, "stpe": 2})), "stpe"),
        (Dataset.from_tfrecord("x.tfrecord").parse_example({"x": Fixed("float32", [2**36])}), "over the cap of a block"),
        (Dataset(_core.Plan.over([], "arrays", {"rows": 2**42, "columns": [_HUGE]})), "more values than a plan can"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_plan_is_refused_here_and_by_the_service(dataset: Dataset, words: str, start_cluster: StartCluster) -> None:
    with pytest.raises(penstock.Invalid, match=words):
        dataset.explain()
    cluster = start_cluster(workers=1)
    for service in ("inline", cluster.connect()):
        with pytest.raises(penstock.Invalid, match=words):
            _core_distribute(dataset, service)


_RESTARTS = {"places": 0, "on_restart": "error", "on_death": "auto", "attempt": 0, "compression": "auto"}


def _core_distribute(dataset: Dataset, service: Any) -> None:
    """Past the check that Dataset makes here, so that it is the other side that refuses."""
    options = {"job_name": "", "mode": "shared", "even": "auto", "seed": 0, "epochs": 1, "index": None, "consumers": 0, **_RESTARTS}
    options |= {"memory": 1 << 28, "stall_timeout": 10.0}
    if service == "inline":
        penstock._core.read_inline(dataset._plan, options)
    else:
        service.client.distribute(dataset._plan, options)


def test_a_plan_of_random_bytes_is_refused() -> None:
    with pytest.raises(penstock.Invalid):
        penstock._core.Plan.parse(os.urandom(200))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"places": 4}, "places=4 says from how many lanes strict takes"),
        ({"places": 4, "processing_mode": "replicated"}, "mode 'replicated' has no such order"),
        ({"even": "drop", "on_death": "redeliver"}, "use on_death=hold, or even=uneven"),
        ({"even": "pad", "on_death": "redeliver"}, "use on_death=hold, or even=uneven"),
    ],
)
def test_options_that_contradict_each_other_are_refused_alike_here_and_by_the_service(
    options: dict[str, Any], words: str, start_cluster: StartCluster
) -> None:
    for service in ("inline", start_cluster(workers=1).address):
        with pytest.raises(penstock.Invalid, match=words):
            Dataset.from_range(5).batch(2).distribute(service, **options)
