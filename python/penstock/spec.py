"""What elements look like, as numpy sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

from penstock import _columns


@dataclass(frozen=True)
class Spec:
    """A leaf. None in `shape` is a dimension whose length differs; dtype object is bytes."""

    dtype: Any
    shape: tuple[int | None, ...]


ElementSpec = Union[Spec, dict[str, "ElementSpec"], tuple["ElementSpec", ...]]


def element_spec(facts: dict[str, Any]) -> ElementSpec:
    leaves = [Spec(_columns.numpy_dtype(dtype), shape) for _, dtype, shape in facts["element_columns"]]
    spec: ElementSpec = _columns.builder(facts["element_structure"])(leaves)
    return spec
