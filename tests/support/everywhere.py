"""A training program in mode shared that knows nothing of where it runs: each rank writes the ids that it was given to a file of its own.

The batches divide by the ranks of all places that it is run in, so that ranks may end at one step and none is dropped.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import penstock


def main(data: str, out: str) -> None:
    dataset = penstock.Dataset.from_tfrecord(f"{data}/*.tfrecord").parse_example({"id": "int64"}).shuffle(100).batch(8)
    with dataset.distribute(processing_mode="shared", timeout=100) as reader:
        ids = [int(i) for batch in reader for i in batch["id"]]
    Path(out, uuid.uuid4().hex).write_text("\n".join(map(str, ids)))


if __name__ == "__main__":
    main(*sys.argv[1:])
