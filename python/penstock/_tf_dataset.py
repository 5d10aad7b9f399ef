"""A real tf.data.Dataset over a reader: by the op of our own (_tf_op), or, where that cannot be had, by Python.

There TensorFlow calls Python once an element. It takes dense numeric components as they lie in the block where they begin at a multiple of 64 bytes,
and copies them once where not; ragged and sparse ones are put together again from their parts by TensorFlow itself.
"""

from __future__ import annotations

import atexit
import gc
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock._executor import tf_elements
from penstock.errors import ExecutorError, Invalid

if TYPE_CHECKING:
    from penstock.reader import Reader


def over(reader: Reader, spec: Any, facts: Mapping[str, Any]) -> Any:
    """A dataset whose iterations are the reader's epochs.

    facts: of the plan that is read.
    """
    from penstock import _tf_op
    from penstock._tf_op.eager import quick

    if reader.runs_here or not _tf_op.usable():
        return make(Epochs(reader), spec)
    return quick(_tf_op.over_reader(reader, spec, structure_of(facts)))


def structure_of(facts: Mapping[str, Any]) -> Any:
    """What columns are called and in which order, around the leaves of rows."""
    return facts["element_structure"]


def make(iterations: Callable[[], Iterator[Any]], spec: Any) -> Any:
    """Each iteration of the dataset is one of `iterations`, whose rows are those that elements of `spec` become."""
    import tensorflow as tf

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def assemble(*tensors: Any) -> Any:
        return tf_elements.from_parts(iter(tensors), spec)

    parts = tuple(tf_elements.part_specs(spec))
    return tf.data.Dataset.from_generator(_Parts(iterations, spec), output_signature=parts).map(assemble)


class _Parts:
    def __init__(self, iterations: Callable[[], Iterator[Any]], spec: Any) -> None:
        self._iterations = iterations
        self._spec = spec

    def __call__(self) -> Iterator[tuple[Any, ...]]:
        rows = self._iterations()
        while not _calls.over:
            with _calls, _told_to_tensorflow():
                row = next(rows, None)
            if row is None:
                return
            yield tuple(tf_elements.to_parts(row, self._spec))


@contextmanager
def _told_to_tensorflow() -> Iterator[None]:
    """TensorFlow knows by these types what went wrong, and calls all others unknown."""
    try:
        yield
    except ExecutorError as error:
        known = _BY_TF_CODE.get(error.details.get("tf_code", ""))
        if known is None:
            raise
        raise known(str(error)) from error


_BY_TF_CODE: dict[str, type[Exception]] = {"3": ValueError, "8": MemoryError, "12": NotImplementedError}


class _Calls:
    """Those of TensorFlow's threads that wait for an element. None may be left when the interpreter ends: it would end them, and they the process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._readers: weakref.WeakSet[Reader] = weakref.WeakSet()
        self.over = False
        atexit.register(self._end)

    def add(self, reader: Reader) -> None:
        self._readers.add(reader)

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *exc: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def _end(self) -> None:
        if not self._readers:
            return
        self.over = True
        for reader in self._readers:
            reader.interrupt()
        _drop_iterators()
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0, _END_WITHIN)


def _drop_iterators() -> None:
    """Those that the program still has, our own (eager.py) among them. TensorFlow takes elements ahead for them, and calls Python once more when they
    go: while it is there.
    """
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator

    for iterator in [found for found in gc.get_objects() if issubclass(type(found), OwnedIterator)]:
        iterator._iterator_resource = None


_END_WITHIN = 1.0  # seconds
_calls = _Calls()
watch = _calls.add  # a reader whose rows TensorFlow takes


def program_ends() -> bool:
    return _calls.over


class Epochs:
    """One iteration at a time: an older one would take elements of the newer one's epoch.

    TensorFlow takes elements ahead on threads of its own, so an older iteration may be waiting for one when the next begins; that waits for it.
    """

    def __init__(self, reader: Reader) -> None:
        watch(reader)
        self._reader = reader
        self._lock = threading.Lock()
        self._current = 0

    def __call__(self) -> Iterator[Any]:
        with self._lock:
            rows = iter(self._reader)
            self._current += 1
            mine = self._current
        while True:
            with self._lock:
                if mine != self._current:
                    raise Invalid("another iteration of this dataset was begun, and one job is read once at a time; end one before the next")
                row = next(rows, None)
            if row is None:
                return
            yield row
