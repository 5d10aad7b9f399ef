"""One job and more and more ranks: how fast they are together, how alike they fare, and what the one worker that serves them holds.

    python bench/ranks.py [--ranks 1 4 16] [--batches 40] [--json FILE]

All ranks read one tf.data pipeline with a shuffle buffer of 64 MiB, which is one lane: through penstock, where they share a job as a matter of
course, in each mode; and through tf.data service, with a job name for all and without one (as a program that was moved from one rank to many often
is). Each figure is of a process of its own; of one that cannot be had, the reason is told in its place.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["PENSTOCK_PROGRESS"] = "0"

ELEMENT = 64 << 10
SHUFFLED = 1000  # elements
WINDOW = 3.0  # seconds in which batches are counted
WITHIN = 300.0  # seconds, for one number of ranks
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


@dataclass(frozen=True)
class Figures:
    mib: float  # the worker with its executors
    batches_a_second: float  # all ranks together
    fairness: float  # the slowest rank's batches : the fastest's


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--batches", type=int, default=40, help="that each rank reads before memory is looked at")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--json", type=Path, help="append a line for each figure to this file")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # the first kind and number of ranks, in this process
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asdict(_measure(options.kinds[0], options.ranks[0], options.batches))))
        sys.stdout.flush()
        os._exit(0)  # ranks that still read are none to wait for
    print(f"{'':36}{'ranks':>6}{'batches/s':>12}{'slowest : fastest':>20}{'MiB of the reader':>20}{'of 1 rank':>12}")
    for kind in options.kinds:
        alone = None
        for ranks in options.ranks:
            figures = _child(kind, ranks, options.batches)
            if isinstance(figures, str):
                print(f"{kind:36}{ranks:>6}  failed: {figures}", flush=True)
                _append(options.json, {"case": kind, "ranks": ranks, "failed": figures})
                continue
            alone = alone or figures.mib
            held = f"{figures.mib:>20.0f}{figures.mib / alone:>11.2f}x"
            print(f"{kind:36}{ranks:>6}{figures.batches_a_second:>12.0f}{figures.fairness:>20.2f}{held}", flush=True)
            _append(options.json, {"case": kind, "ranks": ranks, **asdict(figures)})


def _append(path: Path | None, line: dict[str, Any]) -> None:
    if path is not None:
        with path.open("a") as lines:
            lines.write(json.dumps({"bench": "ranks", **line}) + "\n")


def _child(kind: str, ranks: int, batches: int) -> Figures | str:
    """The figures, or the last that was said where there are none."""
    command = [sys.executable, __file__, "--one", "--kinds", kind, "--ranks", str(ranks), "--batches", str(batches)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            said, complaints = child.communicate(timeout=WITHIN)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return f"it took more than {WITHIN:g} s"
    if child.returncode == 0:
        return Figures(**json.loads(said.splitlines()[-1]))
    last = complaints.strip().splitlines()[-1:] or ["it said nothing"]
    return f"{last[0][:300]} (exit code {child.returncode})"


def _measure(kind: str, ranks: int, batches: int) -> Figures:
    if kind.startswith("penstock"):
        return _measure_penstock(kind.split()[1], ranks, batches)
    with _TfServer("dispatcher") as dispatcher, _TfServer(dispatcher.address) as worker:
        name = "bench" if "one" in kind else None
        distribute = _service().distribute("distributed_epoch", f"grpc://{dispatcher.address}", job_name=name)
        return _with_ranks(lambda rank: iter(_pipeline().apply(distribute)), ranks, batches, worker.process.pid)


def _measure_penstock(mode: str, ranks: int, batches: int) -> Figures:
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


def _with_ranks(batches_of: Callable[[int], Iterator[Any]], ranks: int, batches: int, worker: int) -> Figures:
    """Each rank, a thread of this process, reads so many batches; then all go on, and are looked at."""
    arrived = threading.Barrier(ranks + 1)
    measured = threading.Event()
    counts = [0] * ranks
    failures: list[Exception] = []

    def read(rank: int) -> None:
        try:
            read_on(rank)
        except Exception as error:  # of a thread: it is the program's
            failures.append(error)
            arrived.abort()

    def read_on(rank: int) -> None:
        reader = batches_of(rank)
        for _ in range(batches):
            next(reader)
        arrived.wait()
        while not measured.is_set():
            next(reader)
            counts[rank] += 1

    threads = [threading.Thread(target=read, args=(rank,), daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    with suppress(threading.BrokenBarrierError):
        arrived.wait()
    begin = time.monotonic()
    held = 0.0
    while time.monotonic() < begin + WINDOW and not failures:
        held = max(held, _held(worker))
        time.sleep(0.2)
    taken, seconds = list(counts), time.monotonic() - begin
    measured.set()
    for thread in threads:
        thread.join(10)
    if failures:
        raise next((error for error in failures if not isinstance(error, threading.BrokenBarrierError)), failures[0])
    return Figures(held, sum(taken) / seconds, min(taken) / max(1, *taken))


def _children(process: int) -> list[int]:
    children: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children += [int(child) for child in path.read_text().split()]
        except OSError:  # the thread has ended meanwhile
            continue
    return children


def _held(process: int) -> float:
    """MiB that are resident of a process and its children; the memory that they share counts once."""
    own = [process, *_children(process)]
    kinds = [dict(line.split(":", 1) for line in Path(f"/proc/{member}/status").read_text().splitlines()) for member in own]
    private = sum(int(kind[name].split()[0]) for kind in kinds for name in ("RssAnon", "RssFile"))
    return (private + max(int(kind["RssShmem"].split()[0]) for kind in kinds)) / 1024


if __name__ == "__main__":
    main()
