"""Ranks as processes that stop where a test wants them, to be killed there.

As a program it reads some batches of a job, says so, and stands still in its loop until it is killed or its input ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import penstock


class Victim:
    """Has got `batches` and waits."""

    def __init__(self, pattern: str, address: str, batch: int, steps: int, save: bool, options: dict[str, Any]) -> None:
        words = json.dumps({"pattern": pattern, "address": address, "batch": batch, "steps": steps, "save": save, "options": options})
        self.process = subprocess.Popen([sys.executable, __file__, words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.batches: list[list[int]] = []
        self.state: dict[str, Any] = {}

    def wait_until_it_stands(self) -> Victim:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the rank ended before it had its batches"
        said = json.loads(line)
        self.batches, self.state = said["batches"], said["state"]
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def ids(self) -> list[int]:
        return [i for batch in self.batches for i in batch]


@contextmanager
def victims(pattern: str, address: str, ranks: int, *, batch: int, steps: int, save: bool = False, **options: Any) -> Iterator[list[Victim]]:
    """Ranks 0 to `ranks` - 1 of one job, each with `steps` batches in its hands; rank 0 has saved the position with save=True. None outlives this."""
    options = {"even": "uneven", "num_consumers": ranks, "memory": "4MiB", **options}
    started = [Victim(pattern, address, batch, steps, save and i == 0, {"consumer_index": i, **options}) for i in range(ranks)]
    try:
        yield [victim.wait_until_it_stands() for victim in started]
    finally:
        for victim in started:
            victim.kill()


def main(words: dict[str, Any]) -> None:
    dataset = penstock.Dataset.from_tfrecord(words["pattern"]).parse_example({"id": "int64", "payload": "string"}).batch(words["batch"])
    reader = dataset.distribute(words["address"], **words["options"])
    elements = iter(reader)
    batches = [next(elements)["id"].tolist() for _ in range(words["steps"])]
    print(json.dumps({"batches": batches, "state": reader.state_dict() if words["save"] else {}}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
