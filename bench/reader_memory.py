"""What a reader holds as ranks come: resident memory of one worker, with its executors, that serves 1, 4 and 16 ranks.

    python bench/reader_memory.py [--ranks 1 4 16] [--batches 40]

All ranks read one tf.data pipeline with a shuffle buffer of 64 MiB, which is one lane: through penstock, where they share a job as a matter of
course, in each mode; and through tf.data service, with a job name for all and without one (as a program that was moved from one rank to many often
is).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["PENSTOCK_PROGRESS"] = "0"

ELEMENT = 64 << 10
SHUFFLED = 1000  # elements
KINDS = ("penstock, shared", "penstock, replicated", "penstock, strict", "tf.data service, one job name", "tf.data service, no job name")

TF_SERVER = """
import sys
import tensorflow as tf
service = tf.data.experimental.service
if sys.argv[1] == "dispatcher":
    server = service.DispatchServer()
else:
    server = service.WorkerServer(service.WorkerConfig(sys.argv[1]))
print(server._address, flush=True)
sys.stdin.read()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--batches", type=int, default=40, help="that each rank reads before memory is looked at")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    print(f"{'MiB of one reader, by ranks':36}" + "".join(f"{ranks:>8}" for ranks in options.ranks) + f"{'most : least':>16}")
    for kind in options.kinds:
        held = [_measure(kind, ranks, options.batches) for ranks in options.ranks]
        print(f"{kind:36}" + "".join(f"{mib:>8.0f}" for mib in held) + f"{max(held) / min(held):>16.2f}", flush=True)


def _measure(kind: str, ranks: int, batches: int) -> float:
    if kind.startswith("penstock"):
        return _measure_penstock(kind.split()[1], ranks, batches)
    with _TfServer("dispatcher") as dispatcher, _TfServer(dispatcher.address) as worker:
        name = "bench" if "one" in kind else None
        distribute = _service().distribute("distributed_epoch", f"grpc://{dispatcher.address}", job_name=name)
        return _with_ranks(lambda rank: iter(_pipeline().apply(distribute)), ranks, batches, worker.process.pid)


def _measure_penstock(mode: str, ranks: int, batches: int) -> float:
    from penstock import Dataset, _processes

    cluster = _processes.Cluster(1, log="warn", worker_flags=["--allow-code", "--cpus", "1"])
    dataset = Dataset.from_tf(_pipeline())
    try:
        cluster.wait_until_ready()

        def batches_of(rank: int) -> Iterator[Any]:
            place = {"job_name": "bench", "consumer_index": rank, "num_consumers": ranks}
            return iter(dataset.distribute(cluster.address, processing_mode=mode, even="uneven", **place))

        return _with_ranks(batches_of, ranks, batches, cluster.workers[0].pid)
    finally:
        cluster.stop()


def _service() -> Any:
    import tensorflow as tf

    return tf.data.experimental.service


def _pipeline() -> Any:
    import tensorflow as tf

    numbers = tf.data.Dataset.range(1 << 40)
    return numbers.map(lambda i: tf.fill([ELEMENT // 4], tf.cast(i, tf.float32))).shuffle(SHUFFLED, seed=1).batch(8)


class _TfServer:
    """A dispatcher or a worker of tf.data service, in a process of its own."""

    def __init__(self, role: str) -> None:
        command = [sys.executable, "-c", TF_SERVER, role]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def __enter__(self) -> _TfServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()


def _with_ranks(batches_of: Callable[[int], Iterator[Any]], ranks: int, batches: int, worker: int) -> float:
    """What the worker holds when each rank, a thread of this process, has read so many batches and goes on."""
    arrived = threading.Barrier(ranks + 1)
    measured = threading.Event()

    def read(rank: int) -> None:
        reader = batches_of(rank)
        for _ in range(batches):
            next(reader)
        arrived.wait()
        while not measured.wait(0.05):
            next(reader)

    threads = [threading.Thread(target=read, args=(rank,), daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    arrived.wait()
    held = max(_held(worker) for _ in range(5) if time.sleep(0.2) is None)
    measured.set()
    for thread in threads:
        thread.join(10)
    return held


def _held(process: int) -> float:
    """MiB that are resident of a process and its children; shared memory counts once."""
    own = [process, *(int(child) for path in Path(f"/proc/{process}/task").glob("*/children") for child in path.read_text().split())]
    total = 0
    for member in own:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{member}/smaps_rollup").read_text().splitlines()[1:])
        total += int(fields["Pss"].split()[0])
    return total / 1024


if __name__ == "__main__":
    main()
