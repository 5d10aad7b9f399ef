"""A tf.data graph as a source: imported anew for each lane and epoch, its seeds drawn from the job's, its files or elements divided among lanes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from penstock._executor import process, tf_checkpoints, tf_elements, tf_rewrites, tf_rows
from penstock._executor.specs import RowSpec
from penstock._executor.stages import HeldRows, Part, Source

# TensorFlow puts a prefetch behind every graph and lets it grow, whenever it was found empty, to half of the machine's memory: a worker has its own
# read-ahead, inside its budget.
_READ_AHEAD = 16 << 20

_functions: dict[str, Any] = {}  # TensorFlow keeps them by weak references


class Graph(Source):
    def __init__(self, attrs: dict[str, Any]) -> None:
        self.content: bytes = attrs["payload"]
        self.spec = tf_elements.decode(attrs)
        self.columns = RowSpec.from_attrs(attrs)
        self.by_hint = attrs.get("divided") == "hint"
        if attrs.get("functions"):
            _register_functions(pickle.loads(attrs["functions"]))
        if attrs.get("lanes", 1) > 1:
            _one_thread()

    def rows(self, part: Part, start: int) -> Iterator[Any]:
        iterator, checkpoints = self._open(part, start)
        rows = self._rows_of(iterator)
        return rows if checkpoints is None else checkpoints.rows(rows, iterator, start)

    def held(self, part: Part, start: int) -> HeldRows | None:
        if not tf_elements.is_dense(self.spec) or not tf_rows.can_hold(self.columns):
            return None
        return tf_rows.TensorRows(self.columns, tf_elements.components(self.spec), *self._open(part, start), start)

    def _open(self, part: Part, start: int) -> tuple[Any, tf_checkpoints.Checkpoints | None]:
        content = tf_rewrites.with_seeds(self.content, part.key)
        if self.by_hint:
            content = tf_rewrites.with_hint(content, part.parts, part.part)
        dataset = import_graph(content, self.spec)
        if part.parts > 1 and not self.by_hint:
            dataset = shard(dataset, part.parts, part.part)
        checkpoints = tf_checkpoints.of(content, part.part, part.parts)
        if checkpoints is not None:
            return checkpoints.opened(dataset, start), checkpoints
        return iter(dataset.skip(start) if start else dataset), None

    def _rows_of(self, iterator: Any) -> Iterator[Any]:
        if tf_elements.is_dense(self.spec):
            return tf_elements.dense_rows(iterator, self.spec)
        return (tf_elements.to_row(element, self.spec) for element in iterator)


def import_graph(content: bytes, spec: Any) -> Any:
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.ops import gen_experimental_dataset_ops

    from penstock import _tf_op

    _tf_op.prepare(content)
    with tf.device("/cpu:0"):
        variant = gen_experimental_dataset_ops.dataset_from_graph(content)
    dataset = dataset_ops._VariantDataset(variant, spec)
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.ram_budget = _READ_AHEAD
    return dataset.with_options(options)


def shard(dataset: Any, parts: int, part: int) -> Any:
    """By files: each reader of files gets its share of their names."""
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import distribute

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    return distribute._AutoShardDataset(dataset.with_options(options), parts, part)


def _register_functions(functions: dict[str, Any]) -> None:
    """Python functions that the graph calls by token (from_generator, py_function)."""
    from tensorflow.python.ops import script_ops

    for token, function in functions.items():
        if token not in _functions:
            _functions[token] = function
            script_ops._py_funcs._funcs[token] = function


def _one_thread() -> None:
    """Lanes are worked on side by side, in an executor a core. Only before TensorFlow has begun to work: a function that was loaded before may
    have had it work.
    """
    import tensorflow as tf

    if process.in_executor:
        with suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(1)
