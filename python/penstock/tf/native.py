"""Any dataset that penstock reads, as a tf.data.Dataset, with the reader that knows where a loop is in it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from penstock import _columns, _foreign, _tf_dataset
from penstock.errors import Invalid
from penstock.reader import Reader


def read(dataset: Any, service: Any = None, **options: Any) -> tuple[Any, Reader]:
    """A tf.data.Dataset of what workers prepare, an epoch an iteration, and its reader.

    dataset: a `penstock.Dataset`, or a torch dataset; for one of tf.data `Dataset.from_tf` says how it is read.
    service and options: as for `Dataset.distribute`.

    The reader's `state_dict(at=tag)` is where a loop is that has counted its batches from `tag = reader.tag()` with `tag.after(n)`: what TensorFlow
    has taken ahead is not in it.
    """
    prepared = _foreign.dataset_of(dataset, "read")
    reader = prepared.distribute(service, **options)
    if not isinstance(reader, Reader):
        raise Invalid("service='off': there is nobody to read from; use 'inline' to read in this process")
    return _tf_dataset.over(reader, _spec(prepared._facts), prepared._facts), reader


def _spec(facts: dict[str, Any]) -> Any:
    batched = facts["batch"] > 0
    leaves = [_leaf(dtype, shape, batched) for _, dtype, shape in facts["element_columns"]]
    return _columns.builder(facts["element_structure"])(leaves)


def _leaf(dtype: str, shape: tuple[int | None, ...], batched: bool) -> Any:
    """Rows of a batch that differ in length are ragged; a dimension of a row by itself is only not known beforehand."""
    inner = shape[1:]
    if None not in inner:
        return tf.TensorSpec(shape, dtype)
    if not batched:
        raise Invalid("rows with several dimensions that differ cannot be tensors one by one; batch them first")
    last = len(inner) - inner[::-1].index(None)
    return tf.RaggedTensorSpec(shape, dtype, ragged_rank=last, row_splits_dtype=tf.int64)
