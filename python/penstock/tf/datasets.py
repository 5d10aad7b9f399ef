"""distribute, register_dataset, from_dataset_id: a tf.data.Dataset goes in, and one comes out that the service prepares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from penstock import _core
from penstock._check import whole
from penstock._tf_dataset import structure_of
from penstock._tf_op.eager import quick
from penstock.errors import Invalid, NotFound
from penstock.tf import plans
from penstock.tf.iterations import Job, connected, make
from penstock.tf.policies import CrossTrainerCache, ShardingPolicy, policy_of

_COMPRESSIONS = {"AUTO": "auto", None: "none", "SNAPPY": "lz4"}  # tf.data service's, and what they are here
_TARGETS = ("AUTO", "ANY")
_WHOLE = (ShardingPolicy.OFF, ShardingPolicy.DYNAMIC, ShardingPolicy.DATA)


def distribute(
    processing_mode: ShardingPolicy | str,
    service: str | tuple[str, str],
    job_name: str | None = None,
    consumer_index: int | None = None,
    num_consumers: int | None = None,
    max_outstanding_requests: int | None = None,
    data_transfer_protocol: str | None = None,
    compression: str | None = "AUTO",
    cross_trainer_cache: CrossTrainerCache | None = None,
    target_workers: str = "AUTO",
) -> Callable[[Any], Any]:
    """For `dataset.apply`: what comes before is done by the service's workers, what comes after in this process.

    processing_mode: a `ShardingPolicy`, "parallel_epochs" (OFF) or "distributed_epoch" (DYNAMIC).
    service: "host:port", "grpc://host:port", "unix:/path", or (protocol, address).
    job_name: datasets with the same name read one job, each element going to one of them; their n-th iterations are the job's n-th. None: each
        iteration is a job of its own.
    consumer_index, num_consumers: coordinated reads: at each step the consumers get elements that follow one another in the dataset, which is
        made in one place. They need a job_name.
    cross_trainer_cache: each trainer reads all of the job's data.
    max_outstanding_requests, data_transfer_protocol: checked, and without meaning: readers are bounded in bytes, and workers of this host are read
        by shared memory.
    compression: "AUTO": over a network, where that is quicker; None: nowhere; "SNAPPY": wherever elements go over TCP, with lz4.
    target_workers: "AUTO" or "ANY".
    """
    policy = policy_of(processing_mode)
    _check_compression(compression)
    _check_job_name(job_name)
    place = _place(job_name, consumer_index, num_consumers, cross_trainer_cache)
    place = replace(place, compression=_COMPRESSIONS[compression])
    _check_requests(max_outstanding_requests, data_transfer_protocol, target_workers)
    address = _address(service)

    def apply(dataset: Any) -> Any:
        plan = plans.divided(plans.of(dataset), policy, place.coordinated)
        return _read(address, connected(address).client.register(plan), plan, policy, place, dataset.element_spec)

    return apply


def register_dataset(service: str | tuple[str, str], dataset: Any, compression: str | None = "AUTO", dataset_id: str | None = None) -> Any:
    """The dataset's id, a string tensor; the same for the same dataset.

    dataset_id: refused: a dataset's id is a fingerprint of its graph, so that programs which register the same dataset agree on it by themselves.
    """
    _check_compression(compression)
    if dataset_id is not None:
        raise Invalid("dataset_id=: the id of a dataset is made of its graph, the same for all who register it; use the one that is returned")
    address = _address(service)
    return tf.constant(connected(address).client.register(plans.of(dataset)))


def from_dataset_id(
    processing_mode: ShardingPolicy | str,
    service: str | tuple[str, str],
    dataset_id: Any,
    element_spec: Any = None,
    job_name: str | None = None,
    consumer_index: int | None = None,
    num_consumers: int | None = None,
    max_outstanding_requests: int | None = None,
    data_transfer_protocol: str | None = None,
    cross_trainer_cache: CrossTrainerCache | None = None,
    target_workers: str = "AUTO",
) -> Any:
    """The dataset that was registered under this id, read as `distribute` does.

    element_spec: None: the service knows it; another than that is refused.
    """
    policy = policy_of(processing_mode)
    _check_job_name(job_name)
    place = _place(job_name, consumer_index, num_consumers, cross_trainer_cache)
    _check_requests(max_outstanding_requests, data_transfer_protocol, target_workers)
    address, named = _address(service), _text(dataset_id)
    client = connected(address).client
    try:
        registered = client.get_dataset(named)
    except NotFound as error:
        raise Invalid(f"{error}; register_dataset gives the id of a dataset that this service has") from error
    plan = plans.divided(registered, policy, place.coordinated)
    return _read(address, client.register(plan), plan, policy, place, element_spec)


def _read(address: str, dataset_id: str, plan: _core.Plan, policy: ShardingPolicy, place: _Place, expected: Any = None) -> Any:
    dataset = make(_job(address, dataset_id, plan, policy, place), plans.element_spec(plan, expected), structure_of(plan.facts()))
    if (cardinality := _cardinality(plan, policy, place)) != tf.data.UNKNOWN_CARDINALITY:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(cardinality))
    if place.job_name is None:
        return quick(dataset)
    # Consumers share the job's elements: what a distribution strategy would divide is divided already.
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return quick(dataset.with_options(options))


def _cardinality(plan: _core.Plan, policy: ShardingPolicy, place: _Place) -> int:
    """As the original says it: nothing and for ever stay what they are, where no division may change that."""
    known = plans.cardinality(plan)
    if place.coordinated or (known == tf.data.INFINITE_CARDINALITY and policy in _WHOLE):
        return int(tf.data.INFINITE_CARDINALITY)
    nothing = known == 0 and policy != ShardingPolicy.HINT  # what stands for a hint may be more than there are
    return 0 if nothing else int(tf.data.UNKNOWN_CARDINALITY)


def _job(address: str, dataset_id: str, plan: _core.Plan, policy: ShardingPolicy, place: _Place) -> Job:
    if place.coordinated:
        return Job(address, dataset_id, place.job_name, "strict", place.index, place.consumers, place.compression)
    if policy == ShardingPolicy.OFF:
        return Job(address, dataset_id, place.job_name, "replicated", None, None, place.compression)
    if place.job_name is None and plans.whole(plan) and not plans.impure(plan):  # read by one consumer from one production, in order
        return Job(address, dataset_id, None, "strict", 0, 1, place.compression)
    return Job(address, dataset_id, place.job_name, "shared", None, None, place.compression)


# ---- arguments


@dataclass(frozen=True)
class _Place:
    """Which of how many consumers of which job, and how its blocks come."""

    job_name: str | None
    index: int | None
    consumers: int | None
    compression: str = "auto"

    @property
    def coordinated(self) -> bool:
        return self.consumers is not None


def _place(job_name: Any, index: Any, consumers: Any, cache: CrossTrainerCache | None) -> _Place:
    if (index is None) != (consumers is None):
        raise Invalid(f"consumer_index={index} and num_consumers={consumers} go together: which of how many consumers this is")
    if consumers is not None:
        consumers = whole(1)("num_consumers", consumers)
        index = whole(0, consumers - 1, f"below num_consumers={consumers}")("consumer_index", index)
    name = None if job_name is None else _text(job_name)
    if consumers is not None and name is None:
        raise Invalid(f"num_consumers={consumers} needs a job_name, by which the consumers find each other")
    if cache is not None:
        if name is None:
            raise Invalid("cross_trainer_cache needs a job_name, by which the trainers find each other")
        name = f"{name}-of-{cache.trainer_id}"
    return _Place(name, index, consumers)


def _check_job_name(job_name: Any) -> None:
    if job_name is None:
        return
    if not isinstance(job_name, (str, tf.Tensor)):
        raise Invalid(f"job_name={job_name!r} is a {type(job_name).__name__}, and must be a string")
    if isinstance(job_name, str) and not job_name:
        raise Invalid("job_name is empty; leave it out for jobs of this dataset's own")
    if isinstance(job_name, str):
        _core.check_name("job_name", job_name)


def _check_compression(compression: Any) -> None:
    if compression not in _COMPRESSIONS:
        raise Invalid(f"compression={compression!r} is none of {', '.join(map(repr, _COMPRESSIONS))}")


def _check_requests(outstanding: Any, protocol: Any, target: Any) -> None:
    if outstanding is not None and int(outstanding) < 1:
        raise Invalid(f"max_outstanding_requests={outstanding} must be at least 1")
    if protocol is not None and not isinstance(protocol, str):
        raise Invalid(f"data_transfer_protocol={protocol!r} is no string")
    if str(target).upper() == "LOCAL":
        raise Invalid(
            "target_workers='LOCAL': workers are processes, and the elements of a job are not bound to one; leave it out: "
            "workers on this host are read by shared memory anyhow"
        )
    if target not in _TARGETS:
        raise Invalid(f"target_workers={target!r} is none of {', '.join(map(repr, _TARGETS))}")


def _address(service: Any) -> str:
    if isinstance(service, tuple):
        _, service = service
    if not isinstance(service, str):
        raise Invalid(f"service={service!r} is a {type(service).__name__}, and must be a string: 'grpc://host:5050'")
    if not service:
        raise Invalid("service is empty; name the dispatcher: 'grpc://host:5050'")
    if service.count("://") > 1:
        raise Invalid(f"service={service!r} has '://' more than once; write it as 'grpc://host:5050'")
    return service


def _text(value: Any) -> str:
    if isinstance(value, tf.Tensor):
        known = tf.get_static_value(value)
        if known is None:
            raise Invalid("a dataset of the service cannot be made inside a tf.function; make it outside, and pass it in")
        value = known.item() if hasattr(known, "item") else known
    return value.decode() if isinstance(value, bytes) else str(value)
