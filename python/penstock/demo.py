"""`make demo`: two ranks read what three workers prepare, while about everything is killed; then three ranks go on from their checkpoint.

Every row carries its id. What the ranks got is counted here, apart from penstock, with nothing but a Counter.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from penstock import Dataset, _binary, _processes
from penstock.tfrecord import write_tfrecord

FILES, ROWS, IMAGE, BATCH = 64, 1250, 1024, 32
WORKERS = 3
PACE = 0.008  # seconds of "training" a step
CHECKPOINT_EVERY = 25  # steps
SILENCE = 3.0  # seconds after which a silent worker counts as lost
PATIENCE = 60.0
CHECK_FAILED = 3


def main() -> int:
    shared_memory = set(os.listdir("/dev/shm"))
    directory = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    demo = Demo(directory)
    try:
        _timed(f"writing {FILES} gzip TFRecord files, {FILES * ROWS:,} rows, each with its id", lambda: _write(directory))
        _timed(f"starting a dispatcher and {WORKERS} workers", demo.start_servers)
        checks = _tell(demo)
    except Failed as failure:
        checks = [_check(str(failure), False)]
    finally:
        demo.stop()
        shutil.rmtree(directory)
    checks.append(_check_nothing_left(demo, shared_memory))
    if not all(checks):
        _say("the demo failed: see the lines marked FAILED")
        return CHECK_FAILED
    _say(f"now your own script:  {_how_to_run()}")
    return 0


class Failed(Exception):
    """The demo cannot go on."""


class Rank:
    """A process that reads; its output, a line of ids for each batch, is collected here."""

    def __init__(self, index: int, ranks: int, directory: Path, address: str, checkpoint: str) -> None:
        command = [sys.executable, "-m", "penstock.demo", "rank", str(index), str(ranks), str(directory), address, checkpoint]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.batches: list[list[int]] = []
        self.times: list[float] = []
        self._collector = threading.Thread(target=self._collect)
        self._collector.start()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):  # else it was killed while it wrote
                    self.batches.append([int(word) for word in line.split()])
                    self.times.append(time.monotonic())

    def finish(self) -> int:
        self._collector.join()
        return self.process.wait()

    def longest_wait(self, after: float) -> float:
        times = [t for t in self.times if t >= after - 0.5]
        return max((b - a for a, b in zip(times, times[1:]) if b >= after), default=0.0)


class Demo:
    """The servers, the ranks of one job, and all that were ever started."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ranks: list[Rank] = []
        self.started: list[subprocess.Popen[bytes] | subprocess.Popen[str]] = []
        self.cluster: _processes.Cluster | None = None

    def start_servers(self) -> None:
        self.cluster = _processes.Cluster(workers=WORKERS, directory=self.directory)
        self.cluster.wait_until_ready()
        self.started += [self.cluster.dispatcher, *self.cluster.workers]

    def start_ranks(self, ranks: int, checkpoint: str = "") -> None:
        assert self.cluster is not None
        self.ranks = [Rank(index, ranks, self.directory, self.cluster.address, checkpoint) for index in range(ranks)]
        self.started += [rank.process for rank in self.ranks]

    @property
    def step(self) -> int:
        return min(len(rank.batches) for rank in self.ranks)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if any(rank.process.poll() is not None for rank in self.ranks) or time.monotonic() > end:
                raise Failed(f"{what} did not happen; the servers said:\n{self.log()}")
            time.sleep(0.005)

    def gap(self, words: str, act: Callable[[], None], seconds: float = 0.0) -> None:
        """Does it, lets the loops go on for a while and 25 steps, and says how long they waited."""
        step, when = self.step, time.monotonic()
        act()
        self.wait(lambda: time.monotonic() >= when + seconds, "time")
        now = self.step
        self.wait(lambda: self.step >= now + CHECKPOINT_EVERY, f"another batch after {words}")
        waited = max(rank.longest_wait(when) for rank in self.ranks)
        _say(f"step {step:4}: {words}: {self.step - step} steps later, the longest that a loop waited for a batch was {waited * 1000:.0f} ms")

    def checkpoint(self) -> int:
        """The step of the last checkpoint that every rank has come to; 0 if there is none."""
        steps = [int(file.stem.removeprefix("step-")) for file in self.directory.glob("step-*.json")]
        return max((step for step in steps if step <= self.step), default=0)

    def log(self) -> str:
        return self.cluster.log("dispatcher")[-2000:] + self.cluster.log("worker")[-2000:] if self.cluster else ""

    def stop(self) -> None:
        if self.cluster:
            self.cluster.stop()
        for rank in self.ranks:
            rank.process.kill()
            rank.finish()


def _tell(demo: Demo) -> list[bool]:
    cluster = demo.cluster
    assert cluster is not None
    demo.start_ranks(2)
    demo.wait(lambda: demo.step >= CHECKPOINT_EVERY, "the first checkpoint")
    _say("2 ranks read one job together; rank 0 saves the position of both now and then")
    demo.gap(f"kill -9 of worker {cluster.workers[0].pid}", lambda: _kill(cluster.workers[0]))
    demo.gap(f"kill -9 of dispatcher {cluster.dispatcher.pid}, and its restart", lambda: _restart_dispatcher(demo))
    stopped = cluster.workers[1]
    demo.gap(f"SIGSTOP of worker {stopped.pid}", lambda: stopped.send_signal(signal.SIGSTOP), SILENCE)
    stopped.send_signal(signal.SIGCONT)
    demo.wait(lambda: demo.checkpoint() > 0, "a checkpoint")
    saved = demo.checkpoint()
    before = demo.ranks
    for rank in before:
        rank.process.kill()
    for rank in before:
        rank.finish()
    begin = time.monotonic()
    demo.start_ranks(3, str(demo.directory / f"step-{saved:05}.json"))
    demo.wait(lambda: demo.step >= 1, "a batch after the resume")
    _say(
        f"step {len(before[0].batches):4}: kill -9 of both ranks; 3 ranks go on from the checkpoint of step {saved}: "
        f"their first batches came {time.monotonic() - begin:.1f} s after their processes were started"
    )
    codes = [rank.finish() for rank in demo.ranks]
    counts = Counter(i for rank in before for batch in rank.batches[:saved] for i in batch)
    counts.update(i for rank in demo.ranks for batch in rank.batches for i in batch)
    return [_check(f"the ranks ended with {codes}", not any(codes)), _check_rows(counts, saved)]


def read(index: str, ranks: str, directory: str, address: str, checkpoint: str) -> None:
    """What a rank does."""
    features = {"id": "int64", "image": "string"}
    dataset = Dataset.from_tfrecord(f"{directory}/*.tfrecord.gz").parse_example(features).shuffle(1000).batch(BATCH)
    attempt = 1 if checkpoint else 0
    with dataset.distribute(
        address, job_name="demo", consumer_index=int(index), num_consumers=int(ranks), even="uneven", attempt=attempt, memory="8MiB"
    ) as reader:
        if checkpoint:
            reader.load_state_dict(json.loads(Path(checkpoint).read_text()))
        for step, batch in enumerate(reader, 1):
            print(*batch["id"].tolist(), flush=True)
            if index == "0" and not checkpoint and step % CHECKPOINT_EVERY == 0:
                _save(reader.state_dict(), Path(directory) / f"step-{step:05}.json")
            time.sleep(PACE)


def _save(state: dict[str, object], file: Path) -> None:
    half = file.with_suffix(".half")
    half.write_text(json.dumps(state))
    half.rename(file)


def _write(directory: Path) -> None:
    for file in range(FILES):
        rows = ({"id": file * ROWS + i, "image": bytes(IMAGE)} for i in range(ROWS))
        write_tfrecord(directory / f"part-{file:03}.tfrecord.gz", rows, "gzip")


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _restart_dispatcher(demo: Demo) -> None:
    assert demo.cluster is not None
    _kill(demo.cluster.dispatcher)
    demo.cluster.start_dispatcher()
    demo.cluster.wait_until_ready()
    demo.started.append(demo.cluster.dispatcher)


def _check_rows(counts: Counter[int], saved: int) -> bool:
    lost = len(set(range(FILES * ROWS)) - set(counts))
    duplicated = sum(count - 1 for count in counts.values())
    strange = len(set(counts) - set(range(FILES * ROWS)))
    words = f"of {FILES * ROWS:,} rows, in what 2 ranks had at step {saved} and 3 ranks had after it: lost {lost}, duplicated {duplicated}"
    return _check(words, lost == duplicated == strange == 0)


def _check_nothing_left(demo: Demo, shared_memory: set[str]) -> bool:
    running = [process.pid for process in demo.started if process.poll() is None]
    left = set(os.listdir("/dev/shm")) - shared_memory
    return _check(f"left behind: {len(running)} processes, {len(left)} files of shared memory", not running and not left)


def _check(words: str, good: bool) -> bool:
    _say(f"{'checked' if good else 'FAILED'}: {words}")
    return good


def _timed(words: str, act: Callable[[], None]) -> None:
    begin = time.monotonic()
    act()
    _say(f"{words}: {time.monotonic() - begin:.1f} s")


def _how_to_run() -> str:
    if shutil.which("penstock"):
        return "penstock local --workers 3 -- python train.py"
    binary, python = (os.path.relpath(p) for p in (_binary.path(), sys.executable))
    return f"PYTHONPATH={os.environ.get('PYTHONPATH', '')} {binary} local --workers 3 -- {python} train.py"


def _say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        read(*sys.argv[2:])
    else:
        raise SystemExit(main())
