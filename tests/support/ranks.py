"""Ranks of a job in lockstep: they read some steps, one of them saves the job's position, and all end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import penstock

State = dict[str, Any]


@dataclass
class Leg:
    """What the ranks got between a start and the next."""

    rows: list[list[int]] = field(default_factory=list)  # of each rank
    batches: list[list[list[int]]] = field(default_factory=list)
    state: State = field(default_factory=dict)

    def ids(self) -> list[int]:
        return sorted(i for rows in self.rows for i in rows)


def ids_of(batch: Any) -> list[int]:
    return [int(i) for i in (batch["id"] if isinstance(batch, dict) else batch)]


def run_leg(
    dataset: penstock.Dataset,
    address: str,
    ranks: int,
    *,
    steps: int | None = None,
    state: State | None = None,
    attempt: int = 0,
    save: Callable[[penstock.Reader], State] = lambda reader: reader.state_dict(),
    **options: Any,
) -> Leg:
    """Each rank restores `state`, reads `steps` batches of one epoch, and rank 0 saves; what it saved went through JSON.

    steps=None: all, and nothing is saved.
    """
    options = {"job_name": "job", "even": "uneven", "timeout": 30.0, **options}
    barrier = threading.Barrier(ranks)
    leg = Leg(rows=[[] for _ in range(ranks)], batches=[[] for _ in range(ranks)])

    def read(index: int) -> None:
        with penstock.connect(address) as service:
            reader = dataset.distribute(service, consumer_index=index, num_consumers=ranks, attempt=attempt, **options)
            try:
                if state is not None:
                    reader.load_state_dict(state)
                barrier.wait(60)
                batches = iter(reader)
                for _ in range(steps) if steps is not None else iter(int, 1):
                    batch = next(batches, None)
                    if batch is None:
                        break
                    leg.batches[index].append(ids_of(batch))
                barrier.wait(60)
                if index == 0 and steps is not None:
                    leg.state = json.loads(json.dumps(save(reader)))
                barrier.wait(60)
            except BaseException:
                barrier.abort()
                raise
            finally:
                reader.close()

    with ThreadPoolExecutor(ranks) as pool:
        errors = [future.exception() for future in [pool.submit(read, index) for index in range(ranks)]]
    for error in sorted((error for error in errors if error), key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error  # the one that made the others give up
    leg.rows = [[i for batch in batches for i in batch] for batches in leg.batches]
    return leg
