"""Reader: receives the batches of a job."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Any

from penstock import _columns, _core, _options, _progress
from penstock._check import checked, one_of, seconds, whole
from penstock._executor.rows import split
from penstock.errors import Deadline, Finished, Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.dataset import Dataset
    from penstock.service import Service


_SAVE_PAUSE = 0.05  # seconds, before a dispatcher that is away is asked again


@dataclass(frozen=True)
class Stats:
    """What a reader has done since it joined."""

    rows: int
    batches: int
    bytes: int  # of blocks, as they lie in memory…
    wire_bytes: int  # …and what they took on sockets: nothing in shared memory, fewer where they were compressed
    waited: float  # seconds in next(), for data
    lanes_done: int
    reopened: int  # lanes that moved to another worker…
    hedged: int  # …these since they were behind the others
    dropped_rows: int  # by rule: drop_remainder, even="drop"
    repeated_batches: int  # in shared: the last batch once more, so that all ranks end at one step
    bytes_held: int
    waiting_for: str  # in words; "" when data is ready


@dataclass(frozen=True)
class Tag:
    """Where a loop stands: how many elements (batches, or rows where the dataset is not batched) it has, since the job was last restored."""

    generation: int
    step: int

    def after(self, elements: int) -> Tag:
        return Tag(self.generation, self.step + elements)


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of one lane in a batch: from cursor `first` up to `end`, a cursor being (seq, child)."""

    epoch: int
    replica: int
    lane: int
    first: tuple[int, int]
    end: tuple[int, int]
    rows: int


class Reader:
    """An iterable of elements: nested dicts and tuples of numpy arrays.

    Each `iter()` reads one epoch. Arrays lie over the memory that the worker wrote, and give it back when they die. Strings are object arrays
    of bytes; rows that differ in length are `Ragged`. Where the dataset is not batched, elements are rows: arrays where a function gave
    arrays or `padded_batch` made them.
    One iteration at a time: when a newer one has begun, or a state was loaded, an older one raises an error, for its rows would be the newer one's.
    Leaving a loop early gives the rest of the epoch to the other consumers of the job, or drops it where there are none.
    """

    def __init__(self, core: _core.Reader, service: Service, epochs: int | None, total: int | None, arrays: frozenset[int] = frozenset()) -> None:
        self._core = core
        self._service = service
        self._epochs = epochs
        self._total = total
        self._build = _columns.builder(core.structure)
        self._arrays = arrays
        self._closed = False
        self.saves_its_part = False  # and others theirs: where ranks that are not in step save together

    @property
    def job_name(self) -> str:
        return self._core.job_name

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def runs_here(self) -> bool:
        """Whether rows are made in this process, by Python too."""
        return self._service.kind == "inline"

    @property
    def closed(self) -> bool:
        return self._closed

    def __iter__(self) -> Iterator[Any]:
        if self._closed:
            raise Finished("this reader is closed; distribute the dataset again to read on")
        number = self._core.begin()
        if number is None:
            raise Finished(
                f"job {self.job_name!r} has {self._epochs} epoch(s), and they were read; "
                "distribute with epochs=N for more, or epochs=None for one at each iteration"
            )
        elements = _Iteration(number, self._core, self._build, self._arrays).elements()
        return _progress.shown(elements, self._total, f"{self.job_name} epoch {self.epoch}")

    @checked(epoch=whole(0, 2**32 - 1))
    def set_epoch(self, epoch: int) -> None:
        """The next `iter()` reads this epoch; those before it that were not read are passed over."""
        self._core.set_epoch(epoch)

    def stats(self) -> Stats:
        return Stats(**self._core.stats())

    def provenance(self, batch: Any) -> list[Piece]:
        """Which rows of which lanes one of the last 64 batches is made of. It is found by the memory of its arrays: a copy is not known."""
        for leaf in _leaves(batch):
            pieces = self._core.pieces_at(_address(leaf))
            if pieces:
                return [Piece(**piece) for piece in pieces]
        raise NotFound("this is none of the last 64 batches of this reader, or a copy of one; pass a batch as the reader gave it")

    @checked(behind=whole(0), scope=one_of("job", "rank"), timeout=seconds)
    def state_dict(self, at: Any = None, behind: int = 0, scope: str = "job", *, timeout: float = 60.0) -> dict[str, Any]:
        """What the loop has received, to go on after it with `load_state_dict`: JSON-able, small, and readable by later versions.

        at: one of the last 64 batches, as the reader gave it, or its tag: the state after that one, for loops that prefetch.
        behind: so many batches before that (rows, where the dataset is not batched).
        scope: "job": the position of all consumers, which one of them saves for all; "rank": this one's part, which each of them saves.
        timeout: seconds for the other consumers to come to this step, and for a dispatcher that is away to come back.
        """
        tag = None if at is None else self._known_tag(at)
        deadline = time.monotonic() + timeout
        told: Unavailable | None = None
        while True:
            try:
                state: dict[str, Any] = json.loads(self._core.state(tag, behind, scope == "rank", timeout))
                return state
            except Unavailable as error:
                told = error
            except Deadline as late:
                if told is None:
                    raise
                raise told from late  # the last try had too little time to be told why: the one before it was
            timeout = deadline - time.monotonic() - _SAVE_PAUSE
            if timeout <= 0:
                raise told
            time.sleep(_SAVE_PAUSE)

    def tag(self) -> Tag | None:
        """Of the last element that the loop has; None in a job that has no positions (replicated)."""
        try:
            part = self.state_dict(scope="rank")
        except Invalid:
            return None
        return Tag(part["generation"], part["tag"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on after the state, on any number of consumers and workers. All consumers of the job call it, and it waits for them.

        The next `iter()` reads the rest of the epoch that the state was saved in.
        """
        if not isinstance(state, dict):
            raise Invalid(f"load_state_dict takes what state_dict gave, a dict, and not {type(state).__name__}")
        try:
            content = json.dumps(state)
        except (TypeError, ValueError) as error:
            raise Invalid(f"load_state_dict takes what state_dict gave, which is JSON: {error}") from error
        self._core.restore(content)

    def tag_of(self, element: Any) -> Tag | None:
        """Of one of the last 64 batches, as the reader gave it; None where it is none of them, or has no memory to know it by."""
        for leaf in _leaves(element):
            tag = self._core.tag_at(_address(leaf))
            if tag is not None:
                return Tag(*tag)
        return None

    def _known_tag(self, batch: Any) -> tuple[int, int]:
        tag = batch if isinstance(batch, Tag) else self.tag_of(batch)
        if tag is not None:
            return tag.generation, tag.step
        raise NotFound(
            "at= is none of the last 64 batches of this reader, or a copy of one; pass a batch as the reader gave it, "
            "or say how many batches it is behind the last one: state_dict(behind=k)"
        )

    def interrupt(self) -> None:
        """From any thread: who waits for the next batch is told that it is over, by an error."""
        self._core.interrupt()

    def leave(self) -> None:
        """From any thread: who waits for the next batch of the last `iter()` is told, by an error, that it was left. Another `iter()` reads on."""
        self._core.leave()

    def close(self) -> None:
        """Leaves the job; what this reader had not delivered goes to the others."""
        if not self._closed:
            self._closed = True
            self._core.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Iteration:
    """One pass over a reader's elements."""

    def __init__(self, number: int, core: _core.Reader, build: _columns.Builder, arrays: frozenset[int]) -> None:
        self._number = number
        self._core = core
        self._build = build
        self._arrays = arrays  # places of columns whose rows are arrays, though they are ragged

    def elements(self) -> Iterator[Any]:
        # Iterators that keep nothing of what they passed on: memory goes back as soon as the loop lets go of it.
        runs = map(_columns.arrays, iter(self._next_run, None))
        rows = runs if self._core.batch > 0 else chain.from_iterable(map(self._rows, runs))
        return map(self._build, rows)

    def _next_run(self) -> _core.Batch | None:
        return self._core.next(self._number)

    def _rows(self, leaves: Any) -> Iterator[Any]:
        """Those of a run; its first was taken with it."""
        rows = split(leaves, self._arrays)
        return chain(islice(rows, 1), takewhile(self._take, rows))

    def _take(self, row: Any) -> bool:
        del row
        return self._core.take_row(self._number)


def open_reader(dataset: Dataset, service: Service, options: Mapping[str, Any]) -> Reader:
    """Joins the job. `options` are checked ones; see Dataset.distribute."""
    core_options = _options.to_core(options, shared=service.kind == "remote" and not service.own)
    plan = dataset._plan
    core = _core.read_inline(plan, core_options) if service.kind == "inline" else service.client.distribute(plan, core_options)
    total = dataset.cardinality()
    alone = total >= 0 and not core_options["consumers"] and not core_options["job_name"]
    reader = Reader(core, service, core_options["epochs"] or None, total if alone else None, dataset._array_columns())
    reader.saves_its_part = core_options["consumers"] > 1 and core_options["mode"] != "strict"
    return reader


def _leaves(element: Any) -> Iterator[Any]:
    if isinstance(element, dict):
        element = tuple(element.values())
    if isinstance(element, tuple):
        for child in element:
            yield from _leaves(child)
    elif hasattr(element, "offsets"):  # Ragged, and torch's Jagged
        yield element.values
    else:
        yield element


def _address(leaf: Any) -> int:
    """Where its memory begins; 0 where it has none: an array without values points at those of another row."""
    if hasattr(leaf, "data_ptr"):  # a torch tensor over a batch's memory
        return int(leaf.data_ptr()) if leaf.numel() > 0 else 0
    interface = getattr(leaf, "__array_interface__", None)
    return int(interface["data"][0]) if interface and leaf.base is not None and leaf.size > 0 else 0
