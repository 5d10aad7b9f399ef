"""Elements of tf.data as rows, and back. Leaves: dense and ragged tensors are columns; a sparse one is {indices, values, dense_shape}, an optional
one {has_value, value}, and None is (), which has no column.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from penstock._executor.collate import Flat
from penstock._executor.failures import CodeError
from penstock._executor.specs import RAGGED, Column, RowSpec

_UNSUPPORTED = {"variant", "resource", "qint8", "quint8", "qint16", "quint16", "qint32"}


def encode(spec: Any) -> bytes:
    from tensorflow.python.saved_model import nested_structure_coder

    # Names of a dict are a map there, whose order differs between processes otherwise: the dataset's fingerprint would, too.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that what decodes a None must know it: all of TensorFlow does
        content: bytes = nested_structure_coder.encode_structure(spec).SerializeToString(deterministic=True)
    return content


def decode(attrs: dict[str, Any]) -> Any:
    """The element_spec of a plan's graph. The order of its dicts' names, which TensorFlow's encoding does not keep, is that of its rows."""
    from tensorflow.core.protobuf import struct_pb2
    from tensorflow.python.saved_model import nested_structure_coder

    spec = nested_structure_coder.decode_proto(struct_pb2.StructuredValue.FromString(attrs["element_spec"]))
    return _ordered(spec, RowSpec.from_attrs(attrs).structure)


def _ordered(spec: Any, structure: Any) -> Any:
    import tensorflow as tf

    if isinstance(spec, dict):
        return {name: _ordered(spec[name], child) for name, child in structure.items()}
    if isinstance(spec, (tuple, list)):
        return _like(spec, [_ordered(child, inner) for child, inner in zip(spec, structure)])
    return tf.OptionalSpec(_ordered(_value_spec(spec), structure["value"])) if isinstance(spec, tf.OptionalSpec) else spec


# ---- specs


class Leaf(NamedTuple):
    """A column, of those that an element becomes."""

    column: int
    path: str
    spec: Any


def inside(spec: Any) -> list[tuple[Any, Any]] | None:
    """What a component is made of, by the names and numbers that rows have for it; None: it is a column."""
    import tensorflow as tf

    if isinstance(spec, dict):
        if not all(isinstance(name, str) for name in spec):
            raise CodeError(f"from_tf: names in a dict must be strings, and these are {list(spec)}; rename them in a map", code="Invalid")
        return list(spec.items())
    if isinstance(spec, (tuple, list)):
        return list(enumerate(spec))
    if is_none(spec):
        return []
    if isinstance(spec, tf.SparseTensorSpec):
        return list(zip(("indices", "values", "dense_shape"), tf.nest.flatten(spec, expand_composites=True)))
    if isinstance(spec, tf.OptionalSpec):
        return [("has_value", tf.TensorSpec((), tf.bool)), ("value", _value_spec(spec))]
    return None


def leaves(spec: Any, structure: Any = None) -> Iterator[Leaf]:
    """In the order of the spec. structure: of the rows, where their dicts may have their names in another order; None: they are the spec's own."""
    columns = _numbered(_structure(spec) if structure is None else structure, iter(range(1 << 31)))
    return _leaves(spec, columns, "")


def _leaves(spec: Any, columns: Any, path: str) -> Iterator[Leaf]:
    children = inside(spec)
    if children is None:
        yield Leaf(columns, path, spec)
        return
    for name, child in children:
        yield from _leaves(child, columns[name], f"{path}/{name}" if path else str(name))


def _structure(spec: Any) -> Any:
    """As RowSpec has it."""
    children = inside(spec)
    if children is None:
        return None
    if isinstance(spec, (tuple, list)) or is_none(spec):
        return tuple(_structure(child) for _, child in children)
    return {name: _structure(child) for name, child in children}


def _numbered(structure: Any, numbers: Iterator[int]) -> Any:
    if structure is None:
        return next(numbers)
    if isinstance(structure, dict):
        return {name: _numbered(child, numbers) for name, child in structure.items()}
    return tuple(_numbered(child, numbers) for child in structure)


def row_spec(spec: Any) -> RowSpec:
    """Of the rows that elements of this element_spec become. An error names the component that cannot travel."""
    return RowSpec(tuple(_column(leaf) for leaf in leaves(spec)), _structure(spec))


def _column(leaf: Leaf) -> Column:
    import tensorflow as tf

    spec, path = leaf.spec, leaf.path
    if not isinstance(spec, (tf.TensorSpec, tf.RaggedTensorSpec)):
        raise CodeError(f"from_tf: component {path or 'of the element'} is {spec!r}, which cannot be a column", code="Invalid")
    shape = _shape(spec._shape if hasattr(spec, "_shape") else spec.shape, path)
    return Column(path, _dtype(spec.dtype, path), shape, arrays=isinstance(spec, tf.TensorSpec))


def is_none(spec: Any) -> bool:
    from tensorflow.python.data.util import structure

    return isinstance(spec, structure.NoneTensorSpec)


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
    return () if is_none(spec) else _array(element)


def is_dense(spec: Any) -> bool:
    """Whether all components are tensors as they come out of an iterator."""
    import tensorflow as tf

    children = inside(spec)
    if children is None:
        return isinstance(spec, tf.TensorSpec)
    return isinstance(spec, (dict, tuple, list)) and all(is_dense(child) for _, child in children)


def components(spec: Any) -> list[int]:
    """Of a dense element: which of an iterator's tensors each leaf is. tf.data has them in the order of sorted names."""
    from tensorflow.python.data.util import nest

    numbers = nest.pack_sequence_as(spec, range(len(nest.flatten(spec))))
    return list(_values(numbers, spec))


def dense_rows(iterator: Any, spec: Any) -> Iterator[Any]:
    """Rows of what is left of an iterator of dense elements, past what `next` does for all kinds of them, which takes longer than the op."""
    import tensorflow as tf
    from tensorflow.python.ops import gen_dataset_ops

    build, order = row_spec(spec).build, components(spec)
    resource, types, shapes = iterator._iterator_resource, iterator._flat_output_types, iterator._flat_output_shapes
    while True:
        try:
            tensors = gen_dataset_ops.iterator_get_next(resource, output_types=types, output_shapes=shapes)
        except tf.errors.OutOfRangeError:
            return
        yield build([_array(tensors[number]) for number in order])


def _values(row: Any, spec: Any) -> Iterator[Any]:
    """Of the leaves, in their order. row: or a dense element."""
    children = inside(spec)
    if children is None:
        yield row
        return
    for name, child in children:
        yield from _values(row[name], child)


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
    return (part for leaf in leaves(spec) for part in parts_of(leaf.spec))


def parts_of(leaf: Any) -> list[Any]:
    """A dense tensor is one, a ragged one its flat values and row splits from the outside in."""
    import tensorflow as tf

    parts: list[Any] = tf.nest.flatten(leaf, expand_composites=True)
    return parts


def to_parts(row: Any, spec: Any) -> Iterator[Any]:
    for leaf, value in zip(leaves(spec), _values(row, spec)):
        if getattr(leaf.spec, "ragged_rank", 0):
            yield from _ragged_parts(value, leaf.spec)
        else:
            yield _dense(value)


def from_parts(parts: Iterator[Any], spec: Any) -> Any:
    """Arrays or tensors of any graph to the element."""
    import tensorflow as tf

    def leaf(found: Any) -> Any:
        tensors = [tf.cast(next(parts), part.dtype) for part in parts_of(found)]
        return tf.nest.pack_sequence_as(found, tensors, expand_composites=True)

    return _built(spec, leaf)


def from_leaves(values: Iterator[Any], spec: Any) -> Any:
    """What a dense element has, in the classes of the spec."""
    return _built(spec, lambda _: next(values))


def _built(spec: Any, leaf: Callable[[Any], Any]) -> Any:
    """The element, of what `leaf` makes of each leaf's spec, in their order."""
    import tensorflow as tf

    children = inside(spec)
    if children is None:
        return leaf(spec)
    if is_none(spec):
        return None
    built = [_built(child, leaf) for _, child in children]
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.nest.pack_sequence_as(spec, built, expand_composites=True)  # which knows more of its shape than the tensors do
    if isinstance(spec, tf.OptionalSpec):
        has, value = built
        return tf.cond(has, lambda: tf.experimental.Optional.from_value(value), lambda: tf.experimental.Optional.empty(_value_spec(spec)))
    return _like(spec, built)


def _like(spec: Any, children: list[Any]) -> Any:
    """In the class of the spec, which may be one of the program's."""
    if isinstance(spec, dict):
        return type(spec)(zip(spec, children))
    return type(spec)(*children) if hasattr(spec, "_fields") else tuple(children)


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
