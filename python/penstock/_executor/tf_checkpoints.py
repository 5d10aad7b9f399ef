"""Checkpoints of tf.data iterators, so that a lane of a long or endless graph is resumed without making again what came before.

They lie where PENSTOCK_EXECUTOR_CHECKPOINTS says, a directory that all workers see. One that is missing, or cannot be read, costs time and nothing
else: the lane is then made from its beginning, as it is without any.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

VARIABLE = "PENSTOCK_EXECUTOR_CHECKPOINTS"
EVERY = 10.0  # seconds of a lane's work
KEPT = 4  # of a lane: readers may be some blocks behind what was made

log = logging.getLogger("penstock")


def of(graph: bytes, part: int, parts: int) -> Checkpoints | None:
    """Those of one part of a graph whose seeds are set: what the rows are a function of."""
    directory = os.environ.get(VARIABLE)
    if not directory:
        return None
    import tensorflow as tf

    key = hashlib.sha256(b"%s %d %d %s" % (graph, part, parts, tf.__version__.encode())).hexdigest()[:32]
    return Checkpoints(Path(directory) / key)


class Checkpoints:
    def __init__(self, directory: Path, every: float = EVERY) -> None:
        self._directory = directory
        self._every = every

    def rows(self, dataset: Any, start: int, rows_of: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
        """What `rows_of` makes of the dataset's iterator, from element number `start` on; saves where it is from time to time."""
        iterator = iter(dataset)
        taken = self._restore(iterator, start)
        if taken is None:
            iterator, taken = iter(dataset), 0
        next(islice(iterator, start - taken, start - taken), None)
        taken, saved = start, time.monotonic()
        rows = rows_of(iterator)
        for row in rows:
            yield row
            taken += 1
            if time.monotonic() - saved >= self._every:
                if not self._save(iterator, taken):
                    break
                saved = time.monotonic()
        yield from rows

    def _restore(self, iterator: Any, start: int) -> int | None:
        """How many elements the iterator has given, after the newest checkpoint that is not beyond `start`. None: it is of no use any more."""
        import tensorflow as tf

        rows = max((row for row in self._rows() if row <= start), default=0)
        if rows == 0:
            return 0
        try:
            tf.train.Checkpoint(iterator=iterator).read(self._path(rows)).assert_consumed()
        except Exception as error:
            log.warning("the checkpoint %s cannot be read, and its lane begins anew: %s", self._path(rows), error)
            return None
        return rows

    def _save(self, iterator: Any, taken: int) -> bool:
        """False: this graph cannot be saved."""
        import tensorflow as tf

        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            temporary = tempfile.mkdtemp(dir=self._directory, prefix="new-")
            tf.train.Checkpoint(iterator=iterator).write(os.path.join(temporary, "state"))
            if taken not in self._rows():
                os.rename(temporary, self._directory / str(taken))
        except (tf.errors.OpError, OSError) as error:
            log.warning("this tf.data graph is resumed from its beginning, since it cannot be saved: %s", str(error)[:300])
            return False
        for old in sorted(self._rows())[:-KEPT]:
            shutil.rmtree(self._directory / str(old), ignore_errors=True)
        return True

    def _rows(self) -> list[int]:
        """After how many elements each checkpoint was made."""
        return [int(entry.name) for entry in self._directory.glob("[0-9]*")] if self._directory.exists() else []

    def _path(self, rows: int) -> str:
        return str(self._directory / str(rows) / "state")
