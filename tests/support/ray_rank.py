"""What Ray's processes run in tests; it imports nothing of the tests' tools."""

from __future__ import annotations

import penstock

ROWS = 100_000


def dataset() -> penstock.Dataset:
    return penstock.Dataset.from_range(ROWS).shuffle(1000).batch(100)


def read(index: int, ranks: int) -> list[int]:
    """One rank's ids, of the job that all of them share: the service is found, not named."""
    with dataset().distribute(job_name="train", consumer_index=index, num_consumers=ranks, even="drop") as reader:
        return [int(i) for batch in reader for i in batch]
