"""`for element in dataset` of a program that runs eagerly: what `next` does for all kinds of elements takes longer than the op that it calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops, iterator_ops
from tensorflow.python.data.util import nest
from tensorflow.python.eager import context
from tensorflow.python.framework import ops
from tensorflow.python.ops import gen_dataset_ops

from penstock._executor import tf_elements


def quick(dataset: Any) -> Any:
    """The same dataset, whose iterators lose less time where elements are dense tensors."""
    return _Dataset(dataset) if tf_elements.is_dense(dataset.element_spec) else dataset


class _Dataset(dataset_ops.UnaryUnchangedStructureDataset):  # type: ignore[misc]
    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset, dataset._variant_tensor)

    def __iter__(self) -> Any:
        if not context.executing_eagerly():
            return super().__iter__()
        with ops.colocate_with(self._variant_tensor):
            return _Iterator(self.with_options(_alone()))


def _alone() -> Any:
    """The reader has prepared elements ahead: a prefetch that TensorFlow adds would wake a thread for each, and hold memory that blocks lie in."""
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    options.autotune.enabled = False
    return options


class _Iterator(iterator_ops.OwnedIterator):  # type: ignore[misc]
    """The op has looked at types and shapes, so nobody does so again."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset)
        self._pack = _packer(self._element_spec)

    def _next_internal(self) -> Any:
        if not context.executing_eagerly() or context.is_async():  # errors of an op that is not waited for come later
            return super()._next_internal()
        return self._pack(
            gen_dataset_ops.iterator_get_next(self._iterator_resource, output_types=self._flat_output_types, output_shapes=self._flat_output_shapes)
        )


def _packer(spec: Any) -> Callable[[Sequence[Any]], Any]:
    """Makes the element of its components."""
    places = tf_elements.from_leaves(iter(tf_elements.components(spec)), spec)
    if _is_plain(places):
        return lambda tensors: _pack(places, tensors)
    return lambda tensors: nest.pack_sequence_as(spec, tensors)


def _is_plain(places: Any) -> bool:
    """Whether it is of numbers, tuples and dicts alone."""
    if type(places) in (tuple, dict):
        return all(map(_is_plain, places.values() if type(places) is dict else places))
    return type(places) is int


def _pack(places: Any, tensors: Sequence[Any]) -> Any:
    if type(places) is int:
        return tensors[places]
    if type(places) is tuple:
        return tuple([_pack(place, tensors) for place in places])
    return {name: _pack(place, tensors) for name, place in places.items()}
