"""A dataset op of our own: TensorFlow's threads take elements from the reader themselves, without Python, and iterators can be saved.

What an element is made of is in the op's attributes (dataset.cc); the reader is found by name among those that this process has offered.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import logging
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock._tf_op import build

if TYPE_CHECKING:
    from penstock.reader import Reader

OP = "PenstockDataset"

log = logging.getLogger("penstock")


def usable() -> bool:
    """Whether datasets are made with the op. Compiles it where nobody did before, which is logged."""
    return os.environ.get("PENSTOCK_TF_OP") != "0" and library() is not None


def library() -> Any:
    """The op's Python module, bound to this process's readers; None where it cannot be had."""
    return _loaded().module


@dataclass(frozen=True)
class Loaded:
    module: Any = None
    why_not: str = ""


@functools.cache
def _loaded() -> Loaded:
    import tensorflow as tf

    try:
        path = build.library()
        module = tf.load_op_library(path)
        bind = ctypes.CDLL(path).penstock_tf_bind
        bind.argtypes = [ctypes.c_void_p]
        if not bind(_core.tf_abi()):
            raise build.CannotBuild(f"{path} was made for another version")
    except (build.CannotBuild, OSError, tf.errors.OpError) as error:
        log.warning("tf.data gets its elements by way of Python, which is slower, and its iterators cannot be saved: %s", error)
        return Loaded(why_not=str(error))
    atexit.register(_core.end_tf_iterations)
    return Loaded(module)


def over_job(job: dict[str, Any], offer: Any, spec: Any, structure: Any) -> Any:
    """A dataset over a job that is plain data, so that it can be part of a graph that is distributed in turn.

    offer: offers the job under a name (`Client.offer`).
    structure: of the rows (`_tf_dataset.structure_of`).
    """
    place = uuid.uuid4().hex
    return _dataset(json.dumps(job, sort_keys=True), place, offer(place), spec, structure)


def over_reader(reader: Reader, spec: Any, structure: Any) -> Any:
    place = uuid.uuid4().hex
    return _dataset("", place, (reader._core.offer(place, reader.saves_its_part), reader), spec, structure)


def jobs_of(graph: Any) -> Iterator[Any]:
    """The op's nodes in a graph, and in its functions."""
    from penstock._executor import tf_rewrites

    return (node for _, nodes in tf_rewrites.scopes(graph) for node in nodes if node.op == OP)


def prepare(content: bytes) -> None:
    """Before a graph of another process is imported: offers what it reads."""
    from penstock._executor import tf_rewrites
    from penstock._executor.failures import CodeError
    from penstock.tf.iterations import Job

    if OP.encode() not in content:
        return
    if library() is None:
        raise CodeError(
            "the graph reads another dataset of the service by penstock's TensorFlow op, which this worker cannot have: "
            f"{_loaded().why_not}. Install g++ where workers run (or put the op into their image, docs/reference/tf.md), "
            "or set PENSTOCK_TF_OP=0 where the dataset is made",
            code="Mismatch",
        )
    for node in jobs_of(tf_rewrites.parse(content)):
        _offer_once(node.attr["job"].s.decode(), Job)


@functools.cache
def _offer_once(text: str, kind: Any) -> Any:
    return kind(**json.loads(text)).offer(text)


def _dataset(job: str, place: str, held: Any, spec: Any, structure: Any) -> Any:
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    from penstock._executor import tf_elements

    parts = list(_parts(spec, structure))
    order = _flat_order(spec, len(parts))
    if order is not None:
        parts = [parts[i] for i in order]
    with tf.device("/cpu:0"):
        variant = library().penstock_dataset(
            job=job,
            place=place,
            columns=[part.column for part in parts],
            ragged_ranks=[part.ragged_rank for part in parts],
            levels=[part.level for part in parts],
            output_types=[part.spec.dtype for part in parts],
            output_shapes=[part.spec.shape for part in parts],
        )
    dataset = dataset_ops._VariantDataset(variant, tuple(part.spec for part in parts) if order is None else spec)
    dataset._penstock = held  # lives as long as the dataset does
    if order is not None:
        return dataset

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def assemble(*tensors: Any) -> Any:
        return tf_elements.from_parts(iter(tensors), spec)

    return dataset.map(assemble)


# ---- what elements are made of


@dataclass(frozen=True)
class Part:
    """A tensor that the op makes: of which column, and what of it."""

    column: int
    ragged_rank: int
    level: int  # 0: values; n: row splits of the n-th ragged dimension
    spec: Any


def _parts(spec: Any, structure: Any) -> Iterator[Part]:
    """In the order of tf_elements.part_specs."""
    import tensorflow as tf

    from penstock._executor import tf_elements

    for leaf in tf_elements.leaves(spec, structure):
        rank = leaf.spec.ragged_rank if isinstance(leaf.spec, tf.RaggedTensorSpec) else 0
        for level, part in enumerate(tf_elements.parts_of(leaf.spec)):
            yield Part(leaf.column, rank, level, part if level == 0 else tf.TensorSpec(part.shape, tf.int64))


def _flat_order(spec: Any, count: int) -> list[int] | None:
    """Where components are dense tensors, tf.data keeps them as they are, in an order of its own; None: they must be put together."""
    from tensorflow.python.data.util import nest

    from penstock._executor import tf_elements

    if not tf_elements.is_dense(spec):
        return None
    order: list[int] = nest.flatten(tf_elements.from_leaves(iter(range(count)), spec))
    return order
