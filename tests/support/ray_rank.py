"""What Ray's processes run in tests; it imports nothing of the tests' tools."""

from __future__ import annotations

import warnings

import penstock

ROWS = 100_000


def dataset() -> penstock.Dataset:
    return penstock.Dataset.from_range(ROWS).shuffle(1000).batch(100)


def read(index: int, ranks: int) -> list[int]:
    """One rank's ids, of the job that all of them share: the service is found, not named."""
    with dataset().distribute(job_name="train", consumer_index=index, num_consumers=ranks, even="drop") as reader:
        return [int(i) for batch in reader for i in batch]


def warned_of(job_name: str | None, consumers: int | None) -> list[str]:
    """What a task is warned of that reads like this."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        index = None if consumers is None else 0
        with penstock.Dataset.from_range(5).distribute(job_name=job_name, consumer_index=index, num_consumers=consumers) as reader:
            assert len(list(reader)) == 5
    return [str(warning.message) for warning in caught]
