"""A tf.data.Dataset as an iterable of torch tensors, over TensorFlow's memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from penstock import _foreign
from penstock.errors import Invalid
from penstock.torch.jagged import Jagged


class TensorsOf:
    """Iterates a tf.data.Dataset, as often as one likes."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        return map(_convert, self._dataset)

    def __len__(self) -> int:
        return len(self._dataset)


def from_tf(dataset: Any) -> TensorsOf:
    """Elements of `dataset` with torch tensors in place of TensorFlow's: by DLPack, without a copy.

    Ragged tensors become `Jagged`, sparse ones torch's, strings object arrays of bytes, optionals their value or None. Tensors are TensorFlow's
    memory: do not write to them.
    """
    return TensorsOf(_foreign.tf_dataset("from_tf: dataset", dataset))


def _convert(element: Any) -> Any:
    if isinstance(element, dict):
        return {name: _convert(child) for name, child in element.items()}
    if hasattr(element, "_make"):
        return element._make(map(_convert, element))
    if isinstance(element, (tuple, list)):
        return tuple(map(_convert, element))
    return None if element is None else _leaf(element)


def _leaf(element: Any) -> Any:
    if hasattr(element, "nested_row_splits"):
        outer, *inner = map(_dense, element.nested_row_splits)
        return Jagged(_dense(element.flat_values), outer, tuple(inner))
    if hasattr(element, "dense_shape"):
        return _sparse(element)
    if hasattr(element, "has_value"):
        return _convert(element.get_value()) if element.has_value() else None
    if hasattr(element, "dtype"):
        return _dense(element)
    raise Invalid(f"from_tf: torch has no form for a {type(element).__name__}; map the dataset to tensors")


def _sparse(tensor: Any) -> Any:
    import tensorflow as tf

    if tensor.dtype == tf.string:
        raise Invalid("from_tf: torch has no sparse tensors of strings; map them to dense ones with tf.sparse.to_dense, or to numbers")
    shape = tuple(tensor.dense_shape.numpy())
    return torch.sparse_coo_tensor(_dense(tensor.indices).T, _dense(tensor.values), shape, check_invariants=True)


def _dense(tensor: Any) -> Any:
    import tensorflow as tf

    if tensor.dtype == tf.string:
        return tensor.numpy()
    from_dlpack: Any = torch.utils.dlpack.from_dlpack
    return from_dlpack(tf.experimental.dlpack.to_dlpack(tensor))
