"""Elements of tf.data as rows, and back. Leaves: dense and ragged tensors are columns; a sparse one is {indices, values, dense_shape}, an optional
one {has_value, value}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock._executor.collate import Flat
from penstock._executor.failures import CodeError
from penstock._executor.specs import RAGGED, Column, RowSpec

_UNSUPPORTED = {"variant", "resource", "qint8", "quint8", "qint16", "quint16", "qint32"}


def encode(spec: Any) -> bytes:
    from tensorflow.python.saved_model import nested_structure_coder

    # Names of a dict are a map there, whose order differs between processes otherwise: the dataset's fingerprint would, too.
    content: bytes = nested_structure_coder.encode_structure(spec).SerializeToString(deterministic=True)
    return content


def decode(content: bytes) -> Any:
    from tensorflow.core.protobuf import struct_pb2
    from tensorflow.python.saved_model import nested_structure_coder

    return nested_structure_coder.decode_proto(struct_pb2.StructuredValue.FromString(content))


# ---- specs


def row_spec(spec: Any) -> RowSpec:
    """Of the rows that elements of this element_spec become. An error names the component that cannot travel."""
    columns: list[Column] = []
    structure = _add(spec, "", columns)
    return RowSpec(tuple(columns), structure)


def _add(spec: Any, path: str, columns: list[Column]) -> Any:
    import tensorflow as tf

    def inner(name: str) -> str:
        return f"{path}/{name}" if path else name

    if isinstance(spec, dict):
        return {str(name): _add(spec[name], inner(str(name)), columns) for name in spec}
    if isinstance(spec, (tuple, list)):
        return tuple(_add(child, inner(str(i)), columns) for i, child in enumerate(spec))
    if isinstance(spec, tf.SparseTensorSpec):
        rank = _shape(spec.shape, path)
        parts = {"indices": ("int64", (RAGGED, len(rank))), "values": (_dtype(spec.dtype, path), (RAGGED,)), "dense_shape": ("int64", (len(rank),))}
        for name, (dtype, shape) in parts.items():
            columns.append(Column(inner(name), dtype, shape))
        return dict.fromkeys(parts)
    if isinstance(spec, tf.OptionalSpec):
        columns.append(Column(inner("has_value"), "bool", ()))
        return {"has_value": None, "value": _add(_value_spec(spec), inner("value"), columns)}
    if isinstance(spec, (tf.TensorSpec, tf.RaggedTensorSpec)):
        shape = _shape(spec._shape if hasattr(spec, "_shape") else spec.shape, path)
        columns.append(Column(path, _dtype(spec.dtype, path), shape, arrays=isinstance(spec, tf.TensorSpec)))
        return None
    raise CodeError(f"from_tf: component {path or 'of the element'} is {spec!r}, which cannot be a column", code="Invalid")


def _value_spec(optional: Any) -> Any:
    return optional._element_spec


def _shape(shape: Any, path: str) -> tuple[int, ...]:
    if shape.rank is None:
        raise CodeError(f"from_tf: the rank of {path or 'the element'} is not known; set_shape or ensure_shape in a map fixes it", code="Invalid")
    return tuple(RAGGED if d is None else int(d) for d in shape.as_list())


def _dtype(dtype: Any, path: str) -> str:
    if dtype.name in _UNSUPPORTED:
        raise CodeError(f"from_tf: {path or 'the element'} is of dtype {dtype.name}, which cannot be a column", code="Invalid")
    return str(dtype.name)


# ---- elements to rows


def to_row(element: Any, spec: Any) -> Any:
    import tensorflow as tf

    if isinstance(spec, dict):
        return {str(name): to_row(element[name], spec[name]) for name in spec}
    if isinstance(spec, (tuple, list)):
        return tuple(to_row(child, child_spec) for child, child_spec in zip(element, spec))
    if isinstance(spec, tf.SparseTensorSpec):
        return {"indices": _array(element.indices), "values": _array(element.values), "dense_shape": _array(element.dense_shape)}
    if isinstance(spec, tf.OptionalSpec):
        has = bool(element.has_value())
        return {"has_value": has, "value": to_row(element.get_value(), _value_spec(spec)) if has else _nothing(_value_spec(spec))}
    if isinstance(spec, tf.RaggedTensorSpec):
        return _flat(element, spec)
    return _array(element)


def is_dense(spec: Any) -> bool:
    """Whether all components are tensors as they come out of an iterator."""
    import tensorflow as tf

    return all(isinstance(leaf, tf.TensorSpec) for leaf in tf.nest.flatten(spec))


def dense_rows(iterator: Any, spec: Any) -> Iterator[Any]:
    """Rows of what is left of an iterator of dense elements, past what `next` does for all kinds of them, which takes longer than the op."""
    import tensorflow as tf
    from tensorflow.python.ops import gen_dataset_ops

    places = tf.nest.pack_sequence_as(spec, range(len(tf.nest.flatten(spec))))
    resource, types, shapes = iterator._iterator_resource, iterator._flat_output_types, iterator._flat_output_shapes
    while True:
        try:
            tensors = gen_dataset_ops.iterator_get_next(resource, output_types=types, output_shapes=shapes)
        except tf.errors.OutOfRangeError:
            return
        yield _dense_row(tensors, places)


def _dense_row(tensors: Any, places: Any) -> Any:
    if isinstance(places, int):
        return _array(tensors[places])
    if isinstance(places, dict):
        return {str(name): _dense_row(tensors, place) for name, place in places.items()}
    return tuple(_dense_row(tensors, place) for place in places)


def _array(tensor: Any) -> Any:
    """Over the tensor's own memory, which others may hold: not to be written to."""
    import numpy as np

    array = tensor._numpy()
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    return array


def _flat(ragged: Any, spec: Any) -> Any:
    """A ragged tensor level by level, as columns have it."""
    import tensorflow as tf

    if not isinstance(ragged, tf.RaggedTensor):
        return _array(ragged)
    shape = _shape(spec._shape, "")
    counts: list[list[int]] = [[int(ragged.nrows())]] if shape[0] == RAGGED else []
    for i, splits in enumerate(ragged.nested_row_splits):
        if shape[i + 1] == RAGGED:  # a uniform dimension has no offsets
            counts.append((splits[1:] - splits[:-1]).numpy().tolist())
    return Flat(counts, _array(ragged.flat_values), shape[ragged.ragged_rank + 1 :])


def _nothing(spec: Any) -> Any:
    """Stands where an optional has no value."""
    import numpy as np

    rows = row_spec(spec)
    leaves: list[Any] = []
    for column in rows.columns:
        shape = tuple(0 if d == RAGGED else d for d in column.shape)
        if column.dtype == "string":
            leaves.append(np.full(shape, b"", dtype=object) if shape else b"")
        else:
            from penstock._columns import numpy_dtype

            leaves.append(np.zeros(shape, numpy_dtype(column.dtype)))
    return rows.build(leaves)


# ---- rows to elements
#
# By way of parts: dense arrays that TensorFlow can be given, and of which it makes ragged, sparse and optional tensors itself.


def to_element(row: Any, spec: Any) -> Any:
    """The element that `to_row` made this row of: tensors, as the element_spec names them."""
    return from_parts(iter(to_parts(row, spec)), spec)


def part_specs(spec: Any) -> Iterator[Any]:
    """The TensorSpec of each part."""
    import tensorflow as tf

    if isinstance(spec, (dict, tuple, list)):
        for child in spec.values() if isinstance(spec, dict) else spec:
            yield from part_specs(child)
    elif isinstance(spec, tf.OptionalSpec):
        yield tf.TensorSpec((), tf.bool)
        yield from part_specs(_value_spec(spec))
    else:
        yield from tf.nest.flatten(spec, expand_composites=True)


def to_parts(row: Any, spec: Any) -> Iterator[Any]:
    import tensorflow as tf

    if isinstance(spec, dict):
        for name, child in spec.items():
            yield from to_parts(row[str(name)], child)
    elif isinstance(spec, (tuple, list)):
        for value, child in zip(row, spec):
            yield from to_parts(value, child)
    elif isinstance(spec, tf.SparseTensorSpec):
        yield from (row["indices"], row["values"], row["dense_shape"])
    elif isinstance(spec, tf.OptionalSpec):
        yield row["has_value"]
        yield from to_parts(row["value"], _value_spec(spec))
    elif isinstance(spec, tf.RaggedTensorSpec) and spec.ragged_rank:
        yield from _ragged_parts(row, spec)
    else:
        yield _dense(row)


def from_parts(parts: Iterator[Any], spec: Any) -> Any:
    """Arrays or tensors of any graph to the element."""
    import tensorflow as tf

    if isinstance(spec, dict):
        return type(spec)((name, from_parts(parts, child)) for name, child in spec.items())
    if isinstance(spec, (tuple, list)):
        children = [from_parts(parts, child) for child in spec]
        return type(spec)(*children) if hasattr(spec, "_fields") else tuple(children)
    if isinstance(spec, tf.OptionalSpec):
        has, inner = next(parts), _value_spec(spec)
        value = from_parts(parts, inner)
        return tf.cond(has, lambda: tf.experimental.Optional.from_value(value), lambda: tf.experimental.Optional.empty(inner))
    components = [tf.cast(next(parts), component.dtype) for component in tf.nest.flatten(spec, expand_composites=True)]
    return tf.nest.pack_sequence_as(spec, components, expand_composites=True)


def _dense(value: Any) -> Any:
    """Rows of dimensions that were not known beforehand are equally long in one element."""
    import numpy as np

    from penstock.ragged import Ragged

    if not isinstance(value, Ragged):
        return value
    rows = [_dense(row) for row in value]
    return np.stack(rows) if rows else np.empty((0, *(d or 0 for d in value.shape)), value.values.dtype)


def _ragged_parts(value: Any, spec: Any) -> Iterator[Any]:
    """Flat values, then row splits from the outside in. A row whose only ragged dimension is its first came as an array."""
    import numpy as np

    from penstock.ragged import Ragged

    shape = spec._shape.as_list()
    ragged = isinstance(value, Ragged)
    inner = shape[spec.ragged_rank + 1 :]
    offsets: Iterator[Any] = iter(value.offsets if ragged else ())
    rows = len(value)
    nested = []
    for i, dimension in enumerate(shape[1 : spec.ragged_rank + 1], 1):
        length = dimension if ragged else value.shape[i]
        nested.append(np.asarray(next(offsets)) if length is None else np.arange(rows + 1, dtype=np.int64) * length)
        rows = int(nested[-1][-1])
    values = value.values if ragged else value
    yield values.reshape(rows, *inner) if None not in inner else values
    yield from nested
