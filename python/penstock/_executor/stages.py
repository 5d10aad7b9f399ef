"""The operators of a program: sources that begin it, functions that rows pass through. One line each in SOURCES and FUNCTIONS."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, Protocol

from penstock._executor import doing, given, lists, seeds
from penstock._executor.failures import CodeError, from_exception
from penstock._executor.specs import RowSpec


class Item(NamedTuple):
    """A row on its way: the seq of the source row it came from, and which of that row's it is."""

    cursor: tuple[int, int]
    row: Any


class Part(NamedTuple):
    """Which part of a source a lane reads."""

    key: seeds.Key
    part: int
    parts: int


# ---- sources: the rows of a part, from row `start` on


class HeldRows(Protocol):
    """Rows of a source that wait outside Python until they are written; the same questions as to a Collator."""

    def __len__(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def ended(self) -> bool: ...
    def take(self, rows: int, size: int, seconds: float) -> None: ...
    def cursor(self, row: int) -> tuple[int, int]: ...
    def rows_within(self, limit: int) -> int: ...
    def lengths(self, n: int) -> list[int]: ...
    def write(self, n: int, places: list[list[int]], block: memoryview) -> list[int]: ...


class Source:
    def rows(self, part: Part, start: int) -> Iterator[Any]:
        raise NotImplementedError

    def held(self, part: Part, start: int) -> HeldRows | None:
        """For programs without functions, where the source can hold its rows itself."""
        del part, start
        return None


class PythonSource(Source):
    def __init__(self, attrs: dict[str, Any]) -> None:
        self.factory = pickle.loads(attrs["payload"])
        self.structure = RowSpec.from_attrs(attrs).structure
        self.divided = attrs.get("lanes", 1) > 1

    def rows(self, part: Part, start: int) -> Iterator[Any]:
        def begin() -> Iterator[Any]:
            made: Iterable[Any] = self.factory(part.part, part.parts) if self.divided else self.factory()
            return islice(iter(made), start, None)

        return _rows_of(seeds.drawing(part.key.derive(), begin), self.structure)


class TorchSource(Source):
    def __init__(self, attrs: dict[str, Any]) -> None:
        self.dataset = pickle.loads(attrs["payload"])
        self.structure = RowSpec.from_attrs(attrs).structure

    def rows(self, part: Part, start: int) -> Iterator[Any]:
        seed = part.key.derive() & ((1 << 63) - 1)
        return _rows_of(seeds.drawing(seed, lambda: _torch_rows(self.dataset, part, seed, start)), self.structure)


def _rows_of(made: Iterable[Any], structure: Any) -> Iterator[Any]:
    return (lists.as_tuples(row, structure) for row in given.from_source(made))


def _torch_rows(dataset: Any, part: Part, seed: int, start: int) -> Iterator[Any]:
    from torch.utils.data import _utils

    worker = _utils.worker
    info = worker.WorkerInfo(id=part.part, num_workers=part.parts, seed=seed, dataset=dataset)
    rows: Iterator[Any] | None = None
    while True:
        # Lanes take turns in one process, and each must see itself as the worker it is.
        before, worker._worker_info = worker._worker_info, info
        try:
            rows = islice(iter(dataset), start, None) if rows is None else rows
            row = next(rows)
        except StopIteration:
            return
        finally:
            worker._worker_info = before
        yield row


def tf_source(attrs: dict[str, Any]) -> Source:
    from penstock._executor.tf_source import Graph

    return Graph(attrs)


SOURCES: dict[str, Callable[[dict[str, Any]], Source]] = {"python": PythonSource, "torch": TorchSource, "tf": tf_source}


# ---- functions: rows in, rows out


class Function:
    """A stage over rows. `number` is its place in the plan: part of the key of its randomness."""

    def __init__(self, op: str, number: int, attrs: dict[str, Any]) -> None:
        self.op = op
        self.number = number
        self.label = attrs.get("label", "a function")
        self.seeded = "seeded" in attrs.get("notes", [])
        self.spec = RowSpec.from_attrs(attrs)
        self.batch_size = int(attrs.get("batch_size", 1))
        self.call: Callable[[Any], Any] = pickle.loads(attrs["payload"])

    def apply(self, key: seeds.Key, items: list[Item], done: list[Item], until: float = math.inf) -> int:
        """Appends what comes of the items to `done`; where it raises, `done` holds what came before. No other is begun once it is `until`.

        How many were seen: all, or so many at the front.
        """
        number_of = getattr(self.call, "number_of", None)  # by which the user knows what the call is about: an index, not a row of a lane
        at = doing.begin(f"{self.op}({self.label}), on {'row' if number_of is None else 'sample'}")
        for seen, item in enumerate(items):
            if seen and time.monotonic() >= until:
                return seen
            at[0] = item.cursor[0] if number_of is None else number_of(item.row)
            try:
                if self.seeded:
                    seeds.set_all(key.derive(self.number, *item.cursor))
                self._one(item, done)
            except BaseException as error:
                sample = None if number_of is None else number_of(item.row)
                raise from_exception(error, f"{self.op}({self.label})", item.cursor[0], sample) from error
        return len(items)

    def _one(self, item: Item, done: list[Item]) -> None:
        raise NotImplementedError


class Map(Function):
    def _one(self, item: Item, done: list[Item]) -> None:
        done.append(Item(item.cursor, lists.as_tuples(given.by(self.call, item.row), self.spec.structure)))


class Filter(Function):
    def _one(self, item: Item, done: list[Item]) -> None:
        if self.call(item.row):
            done.append(item)


class FlatMap(Function):
    def _one(self, item: Item, done: list[Item]) -> None:
        # A second flat_map goes on counting: all that comes of a source row passes through in one call.
        for row in given.from_source(self.call(item.row)):
            child = done[-1].cursor[1] + 1 if done and done[-1].cursor[0] == item.cursor[0] else 0
            done.append(Item((item.cursor[0], child), lists.as_tuples(row, self.spec.structure)))


class MapBatch(Function):
    """The function sees columns of several rows, and gives back as many."""

    def apply(self, key: seeds.Key, items: list[Item], done: list[Item], until: float = math.inf) -> int:
        del until  # which rows it sees together is not a matter of time
        for start in range(0, len(items), self.batch_size):
            chunk = items[start : start + self.batch_size]
            seq = chunk[0].cursor[0]
            doing.begin(f"{self.op}({self.label}), from row", seq)
            try:
                if self.seeded:
                    seeds.set_all(key.derive(self.number, seq))
                rows = unstack(self.spec, given.by(self.call, stack([item.row for item in chunk])), len(chunk))
            except BaseException as error:
                raise from_exception(error, f"{self.op}({self.label})", seq) from error
            done.extend(Item(item.cursor, row) for item, row in zip(chunk, rows))
        return len(items)


FUNCTIONS: dict[str, type[Function]] = {"map": Map, "filter": Filter, "flat_map": FlatMap, "map_batch": MapBatch}


def stack(rows: list[Any]) -> Any:
    """Rows as columns: arrays where rows are alike, lists of rows where they are not."""
    import numpy as np

    first = rows[0]
    if isinstance(first, dict):
        return {name: stack([row[name] for row in rows]) for name in first}
    if isinstance(first, tuple):
        return tuple(stack([row[i] for row in rows]) for i in range(len(first)))
    shapes = {np.shape(row) for row in rows}
    if isinstance(first, bytes) or len(shapes) > 1:
        column = np.empty(len(rows), dtype=object)
        column[:] = rows
        return column
    return np.stack(rows)


def unstack(spec: RowSpec, columns: Any, rows: int) -> Iterator[Any]:
    leaves = spec.leaves(columns)
    for column, leaf in zip(spec.columns, leaves):
        where = column.name or "its one column"
        if isinstance(leaf, (dict, str, bytes)):
            raise CodeError(f"map_batch returned {type(leaf).__name__}, which is no column of {rows} rows, for {where}; spec= says what it returns")
        if not hasattr(leaf, "__len__") or getattr(leaf, "shape", None) == ():
            raise CodeError(f"map_batch returned {type(leaf).__name__}, which has no rows, for {rows} in {where}: it must keep rows")
        if len(leaf) != rows:
            raise CodeError(f"map_batch returned {len(leaf)} rows in {where} for {rows}: it must keep rows; flat_map makes more or fewer")
    return (spec.build(row) for row in zip(*leaves))
