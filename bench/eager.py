"""Elements a second in an eager TensorFlow loop, `for element in dataset`, over penstock.tf and over tf.data service, in one run.

    python bench/eager.py [--seconds 3] [--sizes 65536 1048576]

One worker makes elements of zeros, which costs it little, so that what is seen is the way from worker to loop; compression is off in both.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["PENSTOCK_PROGRESS"] = "0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64 << 10, 1 << 20])
    options = parser.parse_args()
    import tensorflow as tf

    from penstock import tf as penstock_tf

    print(f"{'elements of':>14}{'tf.data service/s':>20}{'penstock.tf/s':>16}{'ratio':>8}")
    for size in options.sizes:
        theirs = _rate(tf.data.experimental.service, size, options.seconds)
        ours = _rate(penstock_tf, size, options.seconds)
        print(f"{size:>14,}{theirs:>20,.0f}{ours:>16,.0f}{ours / theirs:>8.2f}", flush=True)


def _rate(service: Any, size: int, seconds: float) -> float:
    import tensorflow as tf

    dispatcher = service.DispatchServer()
    worker = service.WorkerServer(service.WorkerConfig(dispatcher.target.split("://")[1]))
    dataset = tf.data.Dataset.from_tensors(tf.zeros([size // 4])).repeat()
    reader = iter(dataset.apply(service.distribute("parallel_epochs", dispatcher.target, compression=None)))
    for _ in range(20):
        next(reader)
    count, begin = 0, time.monotonic()
    while time.monotonic() - begin < seconds:
        next(reader)
        count += 1
    rate = count / (time.monotonic() - begin)
    del reader
    worker.stop()
    dispatcher.stop()
    return rate


if __name__ == "__main__":
    main()
