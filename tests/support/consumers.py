"""Consumers of one job: as threads of this process, or as processes of their own.

As a program it reads a job, and writes what it got as JSON lines, one a batch.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import penstock


def read_in_threads(
    dataset: penstock.Dataset,
    address: str,
    consumers: int,
    shared_memory: bool = True,
    on_batch: Callable[[int, Any], None] = lambda consumer, batch: None,
    **options: Any,
) -> list[list[list[int]]]:
    """The ids of the batches that each consumer got."""
    options = {"even": "uneven", **options}
    joined = threading.Barrier(consumers)

    def read(consumer: int) -> list[list[int]]:
        batches = []
        place = {"consumer_index": consumer} if "num_consumers" in options else {}
        with penstock.connect(address, shared_memory=shared_memory) as service, dataset.distribute(service, **place, **options) as reader:
            joined.wait(30)
            for batch in reader:
                batches.append(batch["id"].tolist())
                on_batch(consumer, batch)
        return batches

    with ThreadPoolExecutor(consumers) as pool:
        return [future.result() for future in [pool.submit(read, i) for i in range(consumers)]]


def start_process(pattern: str, address: str, job: str, batch: int, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, pattern, address, job, str(batch), str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def read_in_processes(pattern: str, address: str, consumers: int, job: str, batch: int, directory: Path) -> list[list[list[int]]]:
    outs = [directory / f"consumer{i}.jsonl" for i in range(consumers)]
    processes = [start_process(pattern, address, job, batch, out) for out in outs]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"joined\n"
    with ThreadPoolExecutor(consumers) as pool:
        list(pool.map(lambda process: process.communicate(timeout=60), processes))
    assert [process.returncode for process in processes] == [0] * consumers
    return [[json.loads(line) for line in out.read_text().splitlines()] for out in outs]


def main(pattern: str, address: str, job: str, batch: str, out: str) -> None:
    dataset = penstock.Dataset.from_tfrecord(pattern).parse_example({"id": "int64"}).batch(int(batch))
    with open(out, "w") as file, dataset.distribute(address, job_name=job, even="uneven") as reader:
        print("joined", flush=True)
        sys.stdin.read()  # until all have
        for element in reader:
            file.write(json.dumps(element["id"].tolist()) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
