"""Preparing batches ahead of the loop, on a thread: copies to pinned memory and to the device overlap with training."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.reader import Reader


@dataclass
class _End:
    error: BaseException | None


class Ahead:
    """Iterates a reader on a thread of its own, at most `depth` elements ahead, each changed by `prepare`.

    `handed_out` is where the reader stood after the last element that the loop has, whatever was taken since.
    """

    def __init__(self, reader: Reader, prepare: Callable[[Any], Any], depth: int) -> None:
        self._source = iter(reader)
        self._reader = reader
        self._prepare = prepare
        self.handed_out = reader.tag()
        self._ready: queue.Queue[Any] = queue.Queue()  # bounded by _room
        self._room = threading.Semaphore(max(depth, 1))
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="penstock-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Any]:
        try:
            while True:
                item = self._ready.get()
                if isinstance(item, _End):
                    if item.error is not None:
                        raise item.error
                    return
                tag, element = item
                if self.handed_out is not None:
                    self.handed_out = tag or self.handed_out.after(1)
                self._room.release()
                yield element
                del item, element  # its memory goes back while the next one is waited for
        finally:
            self.stop()

    def stop(self) -> None:
        """The thread ends after the element that it waits for, if any; who leaves a loop does not wait for that."""
        self._stopping = True
        self._room.release()

    def close(self) -> None:
        """Returns when the thread has ended, and nothing is taken from the source any more."""
        self.stop()
        self._reader.leave()
        self._thread.join()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            while self._take_one():
                pass
        except BaseException as raised:  # the loop's thread raises it
            error = raised
        self._ready.put(_End(error))

    def _take_one(self) -> bool:
        self._room.acquire()
        if self._stopping:
            return False
        for element in self._source:
            self._ready.put((self._reader.tag_of(element), self._prepare(element)))
            return True
        return False
