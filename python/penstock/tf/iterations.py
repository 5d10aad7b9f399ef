"""How iterations of a tf.data.Dataset read jobs."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock import _options, _tf_dataset, _tf_op
from penstock import service as services
from penstock.reader import Reader

WAIT_FOR_DISPATCHER = 600.0  # seconds: servers may come after the trainers


@dataclass(frozen=True)
class Job:
    """What is read, and how: plain data, so that a graph which reads it can itself be sent to workers."""

    address: str
    dataset_id: str
    name: str | None  # None: each iteration is a job of its own
    mode: str
    index: int | None
    consumers: int | None
    compression: str = "auto"

    def join(self) -> Reader:
        service = connected(self.address)
        return Reader(service.client.join(self.dataset_id, self._options()), service, None, None)

    def offer(self, name: str) -> Any:
        """To datasets of the op, as long as what is returned lives."""
        return connected(self.address).client.offer(name, self.dataset_id, self._options(), self.name is None)

    def _options(self) -> dict[str, Any]:
        """Ranks of the environment have no say here: who reads what was said to `distribute`."""
        options = {
            "job_name": self.name,
            "processing_mode": self.mode,
            "consumer_index": self.index,
            "num_consumers": self.consumers,
            "epochs": None,
            "even": "uneven",
            "on_death": "redeliver" if self.consumers is None else "auto",
            "on_restart": "continue",
            "compression": self.compression,
        }
        return _options.to_core(_options.check(options), shared=False)


def make(job: Job, spec: Any, structure: Any) -> Any:
    if _tf_op.usable():
        return _tf_op.over_job(dataclasses.asdict(job), job.offer, spec, structure)
    return _tf_dataset.make(Iterations(job), spec)


class Iterations:
    """Called for each iteration. Those of a named job are its epochs, one after the other; anonymous ones may go on side by side.

    It is pickled where the dataset is part of one that is distributed in turn: the copy joins for itself.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lock = threading.Lock()
        self._epochs: _tf_dataset.Epochs | None = None
        self._idle: list[Reader] = []  # of anonymous jobs: an iteration takes up one that no other reads, and its workers' executors are warm

    def __call__(self) -> Iterator[Any]:
        if self._job.name is None:
            return self._alone()
        with self._lock:
            if self._epochs is None:
                self._epochs = _tf_dataset.Epochs(self._job.join())
        return self._epochs()

    def _alone(self) -> Iterator[Any]:
        with self._lock:
            reader = self._idle.pop() if self._idle else None
        if reader is None:
            reader = self._job.join()
            _tf_dataset.watch(reader)
        try:
            yield from reader
        except Exception:
            if not _tf_dataset.program_ends():  # which closes all, and nobody is there to answer
                reader.close()
            raise
        finally:
            if not reader.closed:
                with self._lock:
                    self._idle.append(reader)

    def __getstate__(self) -> Job:
        return self._job

    def __setstate__(self, job: Job) -> None:
        self.__init__(job)  # type: ignore[misc]


def connected(address: str) -> services.Service:
    return _connected(address, os.getpid())


@functools.cache
def _connected(address: str, process: int) -> services.Service:
    """One connection an address; a forked child needs its own."""
    del process
    return services.connect(address, timeout=WAIT_FOR_DISPATCHER)
