"""Random plans, each as a penstock.Dataset and as the rows that the model gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import penstock
from model import operators as ops


@dataclass(frozen=True)
class Case:
    """`rows` in their order; where `shuffled`, in any order."""

    dataset: penstock.Dataset
    rows: ops.Rows
    words: str  # how it was made, for a failing example
    shuffled: bool = False

    def then(self, word: str, dataset: penstock.Dataset, rows: ops.Rows, shuffled: bool | None = None) -> Case:
        return Case(dataset, rows, f"{self.words}.{word}", self.shuffled if shuffled is None else shuffled)


@st.composite
def sources(draw: st.DrawFn) -> Case:
    if draw(st.booleans()):
        start, stop = draw(st.integers(-50, 50)), draw(st.integers(-50, 300))
        step = draw(st.sampled_from([1, 2, 7, -3]))
        return Case(penstock.Dataset.from_range(start, stop, step), ops.from_range(start, stop, step), f"range({start}, {stop}, {step})")
    return draw(array_sources())


@st.composite
def array_sources(draw: st.DrawFn) -> Case:
    rows = draw(st.integers(0, 40))
    arrays = {
        "id": list(range(rows)),
        "pair": ([[i, -i] for i in range(rows)], [b"s%d" % i for i in range(rows)]),
        "user": {"age": [i / 2 for i in range(rows)]},
    }
    return Case(penstock.Dataset.from_arrays(_numpy(arrays, rows)), ops.from_arrays(arrays), f"arrays({rows})")


def _numpy(arrays: dict[str, Any], rows: int) -> dict[str, Any]:
    """The dtypes that lists of no rows do not show."""
    import numpy as np

    pair, text = arrays["pair"]
    return {
        "id": np.array(arrays["id"], np.int64),
        "pair": (np.array(pair, np.int64).reshape(rows, 2), np.array(text, object)),
        "user": {"age": np.array(arrays["user"]["age"], np.float64)},
    }


@st.composite
def plans(draw: st.DrawFn, steps: int = 4) -> Case:
    """A source and a few operators over it."""
    case = draw(sources())
    for _ in range(draw(st.integers(0, steps))):
        case = _step(draw, case)
    return case


def _step(draw: st.DrawFn, case: Case) -> Case:  # noqa: PLR0911
    dataset, rows = case.dataset, case.rows
    count = draw(st.integers(0, 60))
    name = draw(st.sampled_from(["take", "skip", "shard", "enumerate", "repeat", "zip", "concatenate", "prefetch", "filter"]))
    if name == "take":
        return case.then(f"take({count})", dataset.take(count), ops.take(rows, count))
    if name == "skip":
        return case.then(f"skip({count})", dataset.skip(count), ops.skip(rows, count))
    if name == "shard":
        num = draw(st.integers(1, 4))
        index = draw(st.integers(0, num - 1))
        return case.then(f"shard({num}, {index})", dataset.shard(num, index), ops.shard(rows, num, index))
    if name == "enumerate":
        return case.then(f"enumerate({count})", dataset.enumerate(count), ops.enumerate_rows(rows, count))
    if name == "repeat":
        times = draw(st.integers(0, 3))
        return case.then(f"repeat({times})", dataset.repeat(times), ops.repeat(rows, times))
    if name == "zip":
        other = draw(sources())
        return case.then(f"zip({other.words})", dataset.zip(other.dataset), ops.zip_rows(rows, other.rows))
    if name == "concatenate":
        return case.then(f"concatenate(skip({count}))", dataset.concatenate(dataset.skip(count)), ops.concatenate(rows, ops.skip(rows, count)))
    if name == "filter" and isinstance(dataset.element_spec, penstock.Spec):
        return case.then(f"filter(col() < {count})", dataset.filter(penstock.col() < count), [row for row in rows if row < count])
    return case.then("prefetch()", dataset.prefetch(), rows)


def plain(element: Any) -> Any:
    """An element of a reader as the model's plain value."""
    if isinstance(element, dict):
        return {name: plain(child) for name, child in element.items()}
    if isinstance(element, tuple):
        return tuple(plain(child) for child in element)
    if isinstance(element, penstock.Ragged):
        return element.to_list()
    return element.tolist() if hasattr(element, "tolist") else element


def unbatched(batch: Any) -> list[Any]:
    """The rows of a batch, as plain values."""
    if isinstance(batch, dict):
        return [dict(zip(batch, row)) for row in zip(*map(unbatched, batch.values()))]
    if isinstance(batch, tuple):
        return list(zip(*map(unbatched, batch)))
    return list(plain(batch))


def sortable(row: Any) -> str:
    return repr(row)
