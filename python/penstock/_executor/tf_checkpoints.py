"""Checkpoints of tf.data iterators, so that a lane of a long or endless graph is resumed without making again what came before.

They lie where PENSTOCK_EXECUTOR_CHECKPOINTS says, a directory that all workers see; those that nobody has used for a week are removed by who writes
others. One that is missing, or cannot be read, costs time and nothing
else: the lane is then made from its beginning, as it is without any.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

VARIABLE = "PENSTOCK_EXECUTOR_CHECKPOINTS"
EVERY = 10.0  # seconds of a lane's work
KEPT = 4  # of a lane, the newest: readers may be some blocks behind what was made
UNUSED = 7 * 24 * 3600.0  # seconds: then it is of a job that is over
UNFINISHED = 3600.0  # seconds: then whoever was writing it was killed

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
    """Of one iterator."""

    def __init__(self, directory: Path, every: float = EVERY) -> None:
        self._directory = directory
        self._every = every
        self._saved_at = time.monotonic()
        self._can_save = True
        self._swept = False

    def opened(self, dataset: Any, start: int) -> Any:
        """An iterator of the dataset that gives element number `start` next."""
        iterator = iter(dataset)
        taken = self._restore(iterator, start)
        if taken is None:
            iterator, taken = iter(dataset), 0
        next(islice(iterator, start - taken, start - taken), None)
        self._saved_at = time.monotonic()
        return iterator

    def passed(self, iterator: Any, taken: int) -> None:
        """The iterator has given so many elements: saves it from time to time."""
        if self._can_save and time.monotonic() - self._saved_at >= self._every:
            self._can_save = self._save(iterator, taken)
            self._saved_at = time.monotonic()

    def rows(self, rows: Iterator[Any], iterator: Any, start: int) -> Iterator[Any]:
        """The rows that are made of the iterator's elements, the first of number `start`."""
        for taken, row in enumerate(rows, start + 1):
            yield row
            self.passed(iterator, taken)

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
            if taken in self._rows():  # of an earlier pass, or another worker's: the same
                os.utime(self._directory / str(taken))
                os.utime(self._directory)
            else:
                self._write(tf.train.Checkpoint(iterator=iterator), taken)
        except (tf.errors.OpError, OSError) as error:
            log.warning("this tf.data graph is resumed from its beginning, since it cannot be saved: %s", str(error)[:300])
            return False
        for old in sorted(self._directory.glob("[0-9]*"), key=lambda entry: (_changed(entry), int(entry.name)))[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        if not self._swept:
            self._swept = True
            _sweep(self._directory)
        return True

    def _write(self, checkpoint: Any, taken: int) -> None:
        with tempfile.TemporaryDirectory(dir=self._directory, prefix="new-") as temporary:
            state = Path(temporary) / "whole"
            state.mkdir()
            checkpoint.write(str(state / "state"))
            if taken not in self._rows():  # else another worker was quicker
                state.rename(self._directory / str(taken))

    def _rows(self) -> list[int]:
        """After how many elements each checkpoint was made."""
        return [int(entry.name) for entry in self._directory.glob("[0-9]*")] if self._directory.exists() else []

    def _path(self, rows: int) -> str:
        return str(self._directory / str(rows) / "state")


def _changed(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:  # somebody has removed it
        return 0.0


def _sweep(directory: Path) -> None:
    """Removes what killed executors have left in it, and beside it what is of jobs that are over."""
    now = time.time()
    unfinished = [entry for entry in directory.glob("new-*") if now - _changed(entry) > UNFINISHED]
    others = [entry for entry in directory.parent.iterdir() if re.fullmatch("[0-9a-f]{32}", entry.name) and now - _changed(entry) > UNUSED]
    for old in [*unfinished, *others]:
        shutil.rmtree(old, ignore_errors=True)
