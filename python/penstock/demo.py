"""`make demo`: three workers prepare gzip TFRecords, two processes read one epoch together, a worker is killed on the way.

Every row carries its id. What the two processes got is counted here, apart from penstock, with nothing but a Counter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from penstock import Dataset, Fixed, _binary, _processes
from penstock.tfrecord import write_tfrecord

FILES, ROWS, WIDTH, BATCH = 64, 1000, 64, 64
WORKERS, CONSUMERS = 3, 2
CHECK_FAILED = 3


def main() -> int:
    shared_memory = set(os.listdir("/dev/shm"))
    directory = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    try:
        _timed(f"writing {FILES} gzip TFRecord files, {FILES * ROWS:,} rows", lambda: _write(directory))
        cluster = _processes.Cluster(workers=WORKERS)
        try:
            _timed(f"starting a dispatcher and {WORKERS} workers", lambda: cluster.wait_until_ready(30))
            consumers = _read_and_kill(cluster, directory)
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(directory)
    checks = [_check_rows(consumers), _check_batches(consumers), _check_nothing_left(cluster, shared_memory)]
    if not all(checks):
        _say("the demo failed: see the lines marked FAILED")
        return CHECK_FAILED
    _say(f"now your own script:  {_how_to_run()}")
    return 0


class Consumer:
    """A process that reads the job; its output, a line of ids for each batch, is collected here."""

    def __init__(self, directory: Path, address: str) -> None:
        command = [sys.executable, "-m", "penstock.demo", "consumer", str(directory), address]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.batches: list[list[int]] = []
        self.times: list[float] = []
        self._reader = threading.Thread(target=self._collect)
        self._reader.start()

    @property
    def rows(self) -> int:
        return sum(map(len, self.batches))

    def _collect(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.batches.append([int(word) for word in line.split()])
            self.times.append(time.monotonic())

    def finish(self) -> int:
        self._reader.join()
        return self.process.wait()

    def longest_wait(self, after: float) -> float:
        times = [t for t in self.times if t >= after - 0.5]
        return max((b - a for a, b in zip(times, times[1:])), default=0.0)


def consume(directory: str, address: str) -> None:
    """What a consumer process does: read, take a step as a training loop would, say what it got."""
    import numpy as np

    weights = np.full((WIDTH, 512), 0.01, np.float32)
    dataset = (
        Dataset.from_tfrecord(f"{directory}/*.tfrecord.gz").parse_example({"id": "int64", "x": Fixed("float32", [WIDTH])}).shuffle(1000).batch(BATCH)
    )
    with dataset.distribute(address, job_name="demo", even="uneven") as reader:
        for batch in reader:
            np.tanh(batch["x"] @ weights)
            print(*batch["id"].tolist(), flush=True)


def _write(directory: Path) -> None:
    for file in range(FILES):
        rows = ({"id": file * ROWS + i, "x": [float(i % 7)] * WIDTH} for i in range(ROWS))
        write_tfrecord(directory / f"part-{file:03}.tfrecord.gz", rows, "gzip")


def _read_and_kill(cluster: _processes.Cluster, directory: Path) -> list[Consumer]:
    _say(f"{CONSUMERS} processes read one epoch together")
    begin = time.monotonic()
    consumers = [Consumer(directory, cluster.address) for _ in range(CONSUMERS)]
    while _rows(consumers) < FILES * ROWS // 3 and any(c.process.poll() is None for c in consumers):
        time.sleep(0.005)
    victim = cluster.workers[0]
    victim.kill()
    killed = time.monotonic()
    _say(f"kill -9 of worker {victim.pid} after {_rows(consumers):,} rows, at {killed - begin:.1f} s")
    codes = [consumer.finish() for consumer in consumers]
    seconds = max(consumer.times[-1] for consumer in consumers if consumer.times) - min(c.times[0] for c in consumers if c.times)
    shares = " + ".join(f"{consumer.rows:,}" for consumer in consumers)
    _say(f"epoch ended: {shares} rows in {seconds:.1f} s, {_rows(consumers) / seconds:,.0f} rows/s")
    _say(f"longest wait for a batch around the kill: {max(c.longest_wait(killed) for c in consumers) * 1000:.0f} ms")
    if any(codes):
        _say(f"FAILED: the consumers exited with {codes}\n{cluster.log('dispatcher')}{cluster.log('worker')}")
        raise SystemExit(CHECK_FAILED)
    return consumers


def _rows(consumers: list[Consumer]) -> int:
    return sum(consumer.rows for consumer in consumers)


def _check_rows(consumers: list[Consumer]) -> bool:
    counts = Counter(i for consumer in consumers for batch in consumer.batches for i in batch)
    lost = len(set(range(FILES * ROWS)) - set(counts))
    duplicated = sum(count - 1 for count in counts.values())
    strange = len(set(counts) - set(range(FILES * ROWS)))
    return _check(f"of {FILES * ROWS:,} rows: lost {lost}, duplicated {duplicated}", lost == duplicated == strange == 0)


def _check_batches(consumers: list[Consumer]) -> bool:
    sizes = [len(batch) for consumer in consumers for batch in consumer.batches]
    short = sum(size < BATCH for size in sizes)
    return _check(f"of {len(sizes):,} batches of {BATCH}: short {short} (one may be)", short <= 1 and max(sizes) <= BATCH)


def _check_nothing_left(cluster: _processes.Cluster, shared_memory: set[str]) -> bool:
    running = [p.pid for p in [cluster.dispatcher, *cluster.workers] if p.poll() is None]
    left = set(os.listdir("/dev/shm")) - shared_memory
    return _check(f"left behind: {len(running)} processes, {len(left)} files of shared memory", not running and not left)


def _check(words: str, good: bool) -> bool:
    _say(f"{'checked' if good else 'FAILED'}: {words}")
    return good


def _timed(words: str, act: Callable[[], None]) -> None:
    begin = time.monotonic()
    act()
    _say(f"{words}: {time.monotonic() - begin:.2f} s")


def _how_to_run() -> str:
    if shutil.which("penstock"):
        return "penstock local --workers 3 -- python train.py"
    binary, python = (os.path.relpath(p) for p in (_binary.path(), sys.executable))
    return f"PYTHONPATH={os.environ.get('PYTHONPATH', '')} {binary} local --workers 3 -- {python} train.py"


def _say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["consumer"]:
        consume(*sys.argv[2:])
    else:
        raise SystemExit(main())
