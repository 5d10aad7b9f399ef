"""A real tf.data.Dataset over a reader.

TensorFlow calls Python once an element. It takes dense numeric components as they lie in the block where they begin at a multiple of 64 bytes,
and copies them once where not; ragged and sparse ones are put together again from their parts by TensorFlow itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock._executor import tf_elements
from penstock.errors import Invalid

if TYPE_CHECKING:
    from penstock.reader import Reader


def make(reader: Reader, encoded_spec: bytes) -> Any:
    """Each iteration of the dataset is an epoch of the reader's job."""
    import tensorflow as tf

    spec = tf_elements.decode(encoded_spec)
    parts = tuple(tf_elements.part_specs(spec))
    epochs = _Epochs(reader)

    def generate() -> Iterator[tuple[Any, ...]]:
        for row in epochs.start():
            yield tuple(tf_elements.to_parts(row, spec))

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def assemble(*tensors: Any) -> Any:
        return tf_elements.from_parts(iter(tensors), spec)

    return tf.data.Dataset.from_generator(generate, output_signature=parts).map(assemble)


class _Epochs:
    """One iteration at a time: an older one would take elements of the newer one's epoch.

    TensorFlow takes elements ahead on threads of its own, so an older iteration may be waiting for one when the next begins; that waits for it.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._current = 0

    def start(self) -> Iterator[Any]:
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
