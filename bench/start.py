"""From the start of a program to its first batch: its own service with two readers, a small file of tf.Examples, warm in the cache."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from side_by_side import Case, Stopwatch, main

PENSTOCK = """
import sys, penstock
dataset = penstock.Dataset.from_tfrecord(sys.argv[1]).parse_example({"id": "int64"}).batch(32)
with penstock.local(workers=2) as service, dataset.distribute(service) as reader:
    next(iter(reader))
    print("there", flush=True)
"""

TF_DATA_SERVICE = """
import sys
import tensorflow as tf
service = tf.data.experimental.service
dispatcher = service.DispatchServer()
address = dispatcher.target.split("://")[1]
workers = [service.WorkerServer(service.WorkerConfig(dispatcher_address=address)) for _ in range(2)]
files = tf.data.Dataset.list_files(sys.argv[1])
dataset = tf.data.TFRecordDataset(files).batch(32).map(lambda rows: tf.io.parse_example(rows, {"id": tf.io.FixedLenFeature([], tf.int64)}))
dataset = dataset.apply(service.distribute(service.ShardingPolicy.DYNAMIC, dispatcher.target))
next(iter(dataset))
print("there", flush=True)
"""


def prepare(directory: Path) -> None:
    from penstock.tfrecord import write_tfrecord

    write_tfrecord(directory / "small.tfrecord", ({"id": i} for i in range(1000)))


def _milliseconds(program: str) -> Callable[[Path, Stopwatch], float]:
    def run(directory: Path, watch: Stopwatch) -> float:
        watch.start()
        started = subprocess.Popen([sys.executable, "-c", program, str(directory / "small.tfrecord")], stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None
        assert started.stdout.readline() == "there\n"
        watch.stop()
        started.kill()
        started.communicate()
        return watch.seconds * 1000

    return run


FIRST_BATCH = Case(
    "first batch of a program",
    "ms",
    _milliseconds(PENSTOCK),
    {"tf.data service": _milliseconds(TF_DATA_SERVICE)},
    lower_is_better=True,
    at_least={"tf.data service": 15},
)

if __name__ == "__main__":
    main("start", [FIRST_BATCH], prepare)
