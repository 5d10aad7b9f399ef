"""An eager TensorFlow loop, `for element in dataset`, over penstock.tf and over tf.data service.

One worker makes elements of zeros, which costs it little, so that what is seen is the way from worker to loop; compression is off in both.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path

from side_by_side import Case, Stopwatch, main

SECONDS = 3.0


def _loop(service_module: str, size: int) -> Callable[[Path, Stopwatch], float]:
    def run(directory: Path, watch: Stopwatch) -> float:
        import tensorflow as tf

        service = importlib.import_module(service_module)
        dispatcher = service.DispatchServer()
        worker = service.WorkerServer(service.WorkerConfig(dispatcher.target.split("://")[1]))
        dataset = tf.data.Dataset.from_tensors(tf.zeros([size // 4])).repeat()
        distribute = service.distribute("parallel_epochs", dispatcher.target, compression=None)
        elements = iter(dataset.apply(distribute))
        for _ in range(20):
            next(elements)
        watch.start()
        count, end = 0, time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            next(elements)
            count += 1
        watch.stop()
        del elements, worker
        return count

    return run


def _case(name: str, size: int) -> Case:
    peers = {"tf.data service": _loop("tensorflow.data.experimental.service", size)}
    return Case(f"eager loop, {name}", "elements/s", _loop("penstock.tf", size), peers, at_least={"tf.data service": 5})


if __name__ == "__main__":
    main("eager", [_case("64 KiB", 64 << 10), _case("1 MiB", 1 << 20)])
