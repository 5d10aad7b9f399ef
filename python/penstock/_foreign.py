"""Datasets and functions of others as operators of a plan."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock._check import wrong
from penstock.errors import Error, Invalid

if TYPE_CHECKING:
    from penstock._executor.specs import RowSpec
    from penstock.dataset import Dataset


TORCH_NOTE = "a torch dataset, read by index"  # by which a plan is known as one


def dataset_of(dataset: Any, what: str) -> Dataset:
    """penstock's dataset for one of a framework; `what` asks for it."""
    from penstock.dataset import Dataset

    if isinstance(dataset, Dataset):
        return dataset
    origins = {kind.__module__.partition(".")[0] for kind in type(dataset).__mro__}
    if "tensorflow" in origins and hasattr(dataset, "element_spec"):
        return Dataset.from_tf(dataset)
    if "torch" in origins:
        return Dataset.from_torch(dataset)
    raise Invalid(f"{what} takes a penstock.Dataset, a torch dataset or a tf.data.Dataset; this is a {type(dataset).__name__}")


def like_torch(dataset: Any, what: str, spec: Any = None) -> Dataset:
    """The same for torch's loaders, which take whatever can be read by index, or iterated again and again.

    spec: of the rows of a torch dataset.
    """
    from penstock.dataset import Dataset

    if isinstance(dataset, Dataset) or hasattr(dataset, "_variant_tensor"):
        if spec is not None:
            raise Invalid(f"{what}: spec= says what the rows of a torch dataset look like; a {type(dataset).__name__} says it itself")
        return dataset_of(dataset, what)
    if isinstance(dataset, (str, bytes)) or not (_is_indexed(dataset) or hasattr(dataset, "__iter__")):
        return dataset_of(dataset, what)
    if not _is_indexed(dataset) and hasattr(dataset, "__next__"):
        raise Invalid(f"{what}: a {type(dataset).__name__} is an iterator, which is over after one epoch; give what it iterates")
    return Dataset.from_torch(dataset, spec=spec)


def python_plan(factory: Callable[..., Iterable[Any]], lanes: int, spec: Any) -> _core.Plan:
    from penstock import _code

    rows = _code.spec_of_rows("the factory", lambda: factory(0, lanes) if lanes > 1 else factory(), spec)
    purity, _ = _code.purity_of(factory, keeps_rows=False)
    return _core.Plan.over([], "python", {**_code.code_attrs(factory, _code.label_of(factory), rows, purity), "lanes": int(lanes)})


def torch_plan(dataset: Any, lanes: int, spec: Any) -> _core.Plan:
    from penstock import _code

    label = type(dataset).__qualname__
    if not _is_iterable_style(dataset):
        first = (dataset[i] for i in range(min(len(dataset), _code.SAMPLE)))
        rows = _spec_of_torch(label, lambda: first if len(dataset) > 0 else (0,), spec)  # of none, nobody asks what they are
        numbers = _core.Plan.over([], "range", {"start": 0, "stop": len(dataset), "step": 1})
        return _core.Plan.over(
            [numbers], "map", _code.code_attrs(_GetItem(dataset), f"{label}.__getitem__", rows, _code.PURE, ["seeded", TORCH_NOTE])
        )
    rows = _spec_of_torch(label, lambda: dataset, spec)
    purity, _ = _code.purity_of(type(dataset).__iter__, keeps_rows=False)
    return _core.Plan.over([], "torch", {**_code.code_attrs(dataset, label, rows, purity), "lanes": int(lanes)})


def _spec_of_torch(label: str, rows: Callable[[], Iterable[Any]], spec: Any) -> RowSpec:
    from penstock import _code

    try:
        return _code.spec_of_rows(label, rows, spec)
    except Invalid as error:
        remedy = "; give spec="
        if not str(error).endswith(remedy):
            raise
        raise Invalid(f"{str(error).removesuffix(remedy)}; give spec= to penstock.torch's loader, or to Dataset.from_torch") from error


def _is_iterable_style(dataset: Any) -> bool:
    from torch.utils.data import IterableDataset

    if isinstance(dataset, IterableDataset):
        return True
    return not _is_indexed(dataset)


def _is_indexed(dataset: Any) -> bool:
    return hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")


# ---- checks of arguments


def torch_dataset(name: str, dataset: Any) -> Any:
    if isinstance(dataset, (str, bytes)) or not (_is_indexed(dataset) or hasattr(dataset, "__iter__")):
        raise wrong(name, dataset, "a torch dataset: one with __getitem__ and __len__, or an iterable one")
    return dataset


def tf_dataset(name: str, dataset: Any) -> Any:
    if not (hasattr(dataset, "element_spec") and hasattr(dataset, "_variant_tensor")):
        raise wrong(name, dataset, "a tf.data.Dataset")
    return dataset


def element_spec(name: str, spec: Any) -> Any:
    """What rows look like: each leaf has a dtype and a shape."""
    if hasattr(spec, "dtype") and hasattr(spec, "shape"):
        return spec
    children = list(spec.values()) if isinstance(spec, dict) else list(spec) if isinstance(spec, tuple) else []
    if not children:
        raise wrong(name, spec, "what Dataset.element_spec gives: Spec(dtype, shape), in dicts and tuples")
    for child in children:
        element_spec(name, child)
    return spec


class _GetItem:
    """dataset[i] by the number of the row."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __call__(self, number: Any) -> Any:
        return self.dataset[int(number)]

    def number_of(self, number: Any) -> int:
        return int(number)


def tf_plan(dataset: Any, lanes: int | None) -> _core.Plan:
    from penstock import _tf_graph

    return _core.Plan.over([], "tf", _tf_graph.attrs_of(dataset, lanes))


def function_plan(input: Dataset, op: str, fn: Callable[[Any], Any], spec: Any, batch_size: int | None = None) -> _core.Plan:
    from penstock import _code

    keeps_rows = op in ("map", "map_batch")
    purity, notes = _code.purity_of(fn, keeps_rows)
    if op == "map_batch" and "seeded" in notes:
        purity = max(purity, _code.PURE_IDENTITY, key=[_code.PURE, _code.PURE_IDENTITY, _code.IMPURE].index)
    attrs = _code.code_attrs(fn, _code.label_of(fn), _spec_of(input, op, fn, spec), purity, notes)
    if batch_size is not None:
        attrs["batch_size"] = int(batch_size)
    return _core.Plan.over([input._plan], op, attrs)


def _spec_of(input: Dataset, op: str, fn: Callable[[Any], Any], spec: Any) -> RowSpec:
    """What comes out of the function, seen by calling it here on the first rows."""
    from penstock import _code

    if op == "filter":
        return _row_spec(input)
    if spec is not None:
        return _code.spec_of_rows(op, tuple, spec)
    try:
        rows = list(islice(_rows_of(input, on_rows=op == "map_batch"), _code.SAMPLE))
    except Error as error:
        raise Invalid(f"{op} cannot see here what its rows look like ({error}); give spec=") from error
    if op == "map_batch":
        from penstock._executor.stages import stack

        columns = fn(stack(rows)) if rows else None
        return _batch_spec(columns, len(rows))
    made: RowSpec = _code.spec_of_rows(_code.label_of(fn), lambda: _outputs(op, fn, rows), None)
    return made


def _outputs(op: str, fn: Callable[[Any], Any], rows: list[Any]) -> Iterable[Any]:
    for row in rows:
        if op == "flat_map":
            yield from fn(row)
        else:
            yield fn(row)


def _batch_spec(columns: Any, rows: int) -> RowSpec:
    from penstock._executor.specs import RowSpec, infer, structure_of

    if rows == 0:
        raise Invalid("map_batch was given no rows to see what comes of them; give spec=")
    structure = structure_of(columns)
    leaves = RowSpec((), structure).leaves(columns)
    return infer([RowSpec((), structure).build(row) for row in builtins.zip(*leaves)], structure)


def _rows_of(input: Dataset, on_rows: bool) -> Iterable[Any]:
    """Elements; for functions that commute with a last batching, the rows in them."""
    from penstock._executor import rows
    from penstock._executor.specs import RowSpec, structure_of

    batched = on_rows and input._facts["batch"] > 0
    arrays = input._array_columns(unbatched=True) if batched else frozenset()
    for element in input:
        if not batched:
            yield element
            continue
        spec = RowSpec((), structure_of(element))
        yield from (spec.build(row) for row in rows.split(spec.leaves(element), arrays))


def _row_spec(input: Dataset) -> RowSpec:
    from penstock._executor.specs import Column, RowSpec

    facts = input._facts
    columns = tuple(Column(name, dtype, tuple(-1 if d is None else d for d in shape)) for name, dtype, shape in facts["element_columns"])
    return RowSpec(columns, facts["element_structure"])
