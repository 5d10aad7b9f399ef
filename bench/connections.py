"""A job that is read while 10,000 idle and 1,000 active connections, and 500 that drip their hello, hold on to the dispatcher: is it disturbed?

    connections.py [--idle 10000] [--active 1000] [--slow 500] [--seconds 3] [--rounds 5]

Idle peers have said hello and answer pings, from many addresses; active ones are consumers that beat each second (bench/cpp/load). They run on the
job's own cores, which anything would do that runs there: so in each round the job is read among them, beside processes that use as much CPU as they
did and are connected to nobody, and alone. What it loses beside those others is sharing; what it loses among the peers beyond that is
disturbance. Exit code 1 where that is more than a tenth of its rate, or of what it makes of its CPU (medians of the rounds), or where anybody's
session is lost.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from processes import Dispatcher, Load, Server, load

import penstock
from penstock import Dataset

SLOWEST = 0.9  # of the rate beside others

# In turns as long as those of the peers: works for its share of one, and sleeps.
BURN = """
import sys, time
turn, share = 0.02, float(sys.argv[1])
while True:
    until = time.thread_time() + turn * share
    begin = time.monotonic()
    while time.thread_time() < until:
        pass
    time.sleep(max(0, begin + turn - time.monotonic()))
"""


@dataclass
class Job:
    """What is measured: the reader's loop is in this process."""

    dispatcher: Dispatcher
    worker: Server

    def cpu_seconds(self) -> float:
        return time.process_time() + self.worker.cpu_seconds()


@dataclass
class Figures:
    rows_a_second: float
    rows_a_cpu_second: float  # of worker and this program together: whom they share the cores with hardly matters
    longest_wait_ms: float  # of the loop for a batch
    dispatcher_cores: float
    peers_cores: tuple[float, ...] = ()  # a process each
    heartbeats_p99_ms: float = 0
    failures: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--active", type=int, default=1000)
    parser.add_argument("--slow", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with Dispatcher() as dispatcher, Server("worker", "--dispatcher", dispatcher.address, "--memory", "256MiB") as worker:
        job = Job(dispatcher, worker)
        _read(job, options.seconds / 2)  # warm
        rounds = [_round(job, options) for _ in range(options.rounds)]
        memory = dispatcher.resident_mib()
    return _report(rounds, options, memory)


def _round(job: Job, options: argparse.Namespace) -> dict[str, Figures]:
    among = _among_peers(job, options)
    with _burners(among.peers_cores):
        beside = _read(job, options.seconds)
    return {"among them": among, "beside as much work": beside, "alone": _read(job, options.seconds)}


def _report(rounds: list[dict[str, Figures]], options: argparse.Namespace, memory: float) -> int:
    print(f"{options.idle:,} idle, {options.active:,} active and {options.slow:,} dripping connections; medians of {len(rounds)} rounds")
    for phase in ("alone", "beside as much work", "among them"):
        figures = [each[phase] for each in rounds]
        rate, thrift = _median(f.rows_a_second for f in figures), _median(f.rows_a_cpu_second for f in figures)
        cores = _median(f.dispatcher_cores for f in figures)
        wait = _median(f.longest_wait_ms for f in figures)
        print(f"  {phase:20} {rate:12,.0f} rows/s {thrift:12,.0f} rows a CPU second, longest wait {wait:5.1f} ms; dispatcher {cores:.2f} cores")
    among = [each["among them"] for each in rounds]
    theirs, heartbeats = _median(sum(f.peers_cores) for f in among), _median(f.heartbeats_p99_ms for f in among)
    print(f"  peers: {theirs:.2f} cores, heartbeats of the active p99 {heartbeats:.1f} ms")
    print(f"  dispatcher at the end: {memory:.0f} MiB")
    sharing = _median(each["beside as much work"].rows_a_second / each["alone"].rows_a_second for each in rounds)
    kept = _median(each["among them"].rows_a_second / each["beside as much work"].rows_a_second for each in rounds)
    work = _median(each["among them"].rows_a_cpu_second / each["beside as much work"].rows_a_cpu_second for each in rounds)
    print(
        f"  sharing the cores left it {sharing:.2f} of its rate; the connections left it {kept:.2f} of that, and {work:.2f} of its rows a CPU second"
    )
    print(f"  (more than {SLOWEST:g} of both is promised: {'kept' if min(kept, work) > SLOWEST else 'NOT KEPT'})")
    failures = [f.failures for f in among if f.failures]
    for failure in failures:
        print(f"  FAILED: {failure}")
    return 0 if min(kept, work) > SLOWEST and not failures else 1


def _median(figures: Iterator[float]) -> float:
    return statistics.median(list(figures))


def _among_peers(job: Job, options: argparse.Namespace) -> Figures:
    address = job.dispatcher.address
    idle = load("idle", f"--address={address}", f"--idle={options.idle}", f"--slow={options.slow}")
    active = load("scale", f"--dispatcher={address}", "--workers=0", f"--consumers={options.active}", "--latecomers=0",
                  f"--seconds={options.seconds + 2}")  # fmt: skip
    with idle as idlers:
        next(idlers)  # all are connected
        with active as consumers:
            next(consumers)
            figures = _read(job, options.seconds, (idlers, consumers))
            said = json.loads(next(consumers))
    figures.heartbeats_p99_ms = said["heartbeats"]["p99_ms"]
    figures.failures = f"{said['failures']} of the active, first: {said['first_failure']}" if said["failures"] else ""
    return figures


@contextmanager
def _burners(cores: tuple[float, ...]) -> Iterator[None]:
    """As many processes, which use so much CPU each."""
    processes = [subprocess.Popen([sys.executable, "-c", BURN, str(share)]) for share in cores]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _read(job: Job, seconds: float, peers: tuple[Load, ...] = ()) -> Figures:
    """A job that is bound by its reader, for so long."""
    service = penstock.connect(job.dispatcher.address)
    with Dataset.from_range(10**9).shuffle(1000).batch(64).distribute(service) as reader:
        elements = iter(reader)
        next(elements)
        used, dispatching, theirs = job.cpu_seconds(), job.dispatcher.cpu_seconds(), [peer.cpu_seconds() for peer in peers]
        begin, rows, longest = time.monotonic(), 0, 0.0
        now = begin
        while now - begin < seconds:
            rows += len(next(elements))
            before, now = now, time.monotonic()
            longest = max(longest, now - before)
        took = now - begin
        return Figures(
            rows_a_second=rows / took,
            rows_a_cpu_second=rows / (job.cpu_seconds() - used),
            longest_wait_ms=1000 * longest,
            dispatcher_cores=(job.dispatcher.cpu_seconds() - dispatching) / took,
            peers_cores=tuple((peer.cpu_seconds() - before) / took for peer, before in zip(peers, theirs, strict=True)),
        )


if __name__ == "__main__":
    sys.exit(main())
