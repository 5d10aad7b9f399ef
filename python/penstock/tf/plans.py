"""The plan of a tf.data.Dataset, and how a sharding policy divides it into lanes."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from penstock import _core, _foreign
from penstock._executor import tf_elements, tf_rewrites
from penstock.errors import Invalid
from penstock.tf.policies import ShardingPolicy

HINT_LANES = 8


def of(dataset: Any) -> _core.Plan:
    """Divided by files where it can be."""
    if not isinstance(dataset, tf.data.Dataset):
        raise Invalid(f"this is a {type(dataset).__name__}; penstock.tf distributes tf.data.Datasets, and penstock.Dataset others")
    if not tf.executing_eagerly():
        raise Invalid("a dataset cannot be registered inside a tf.function or a graph; do it outside")
    return _foreign.tf_plan(dataset, None)


def divided(plan: _core.Plan, policy: ShardingPolicy, coordinated: bool) -> _core.Plan:
    """OFF, DATA and coordinated reads are whole: made in one place, in order, as the graph says."""
    attrs = _attrs(plan)
    if coordinated or policy in (ShardingPolicy.OFF, ShardingPolicy.DATA):
        return plan if attrs["lanes"] == 1 else _with(attrs, lanes=1)
    if policy == ShardingPolicy.HINT:
        if not tf_rewrites.has_shard_hint(tf_rewrites.parse(attrs["payload"])):
            raise Invalid("ShardingPolicy.HINT: the dataset has no shard(SHARD_HINT, SHARD_HINT) to divide it at; add one, or use DYNAMIC")
        return _with(attrs, lanes=HINT_LANES, divided="hint")
    if policy == ShardingPolicy.FILE and attrs["lanes"] == 1 and not tf_rewrites.reads_files(tf_rewrites.parse(attrs["payload"])):
        raise Invalid("ShardingPolicy.FILE: the dataset's graph names no files to divide it by; use FILE_OR_DATA, or DYNAMIC")
    return plan


def element_spec(plan: _core.Plan, expected: Any) -> Any:
    """The one that is expected, where it is the registered one: its named tuples are the program's own."""
    spec = tf_elements.decode(_attrs(plan))
    if expected is not None and expected != spec:
        raise Invalid(f"element_spec={expected}, but the dataset that was registered is of {spec}; leave it out")
    return spec if expected is None else expected


def whole(plan: _core.Plan) -> bool:
    """Made in one place."""
    return bool(_attrs(plan)["lanes"] == 1)


def impure(plan: _core.Plan) -> bool:
    """Rows differ each time they are made."""
    return bool(_attrs(plan)["purity"] == "impure")


def cardinality(plan: _core.Plan) -> int:
    """What tf.data says of the graph."""
    return int(_attrs(plan).get("cardinality", tf.data.UNKNOWN_CARDINALITY))


def _attrs(plan: _core.Plan) -> dict[str, Any]:
    op, _, attrs = plan.nodes()[-1]
    if op != "tf":
        raise Invalid("this dataset was not made of a tf.data.Dataset; read it with penstock.Dataset, or with penstock.dds")
    return dict(attrs)


def _with(attrs: dict[str, Any], **changed: Any) -> _core.Plan:
    note = [] if changed["lanes"] == 1 else [f"it is divided among {changed['lanes']} lanes where its graph says SHARD_HINT"]
    notes = [note for note in attrs["notes"] if "are divided among" not in note]
    return _core.Plan.over([], "tf", {**attrs, **changed, "notes": notes + note})
