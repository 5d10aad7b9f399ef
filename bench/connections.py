"""A job that is read while 10,000 idle and 1,000 active connections, and 500 that drip their hello, hold on to the dispatcher: is it disturbed?

    connections.py [--idle 10000] [--active 1000] [--slow 500] [--seconds 10]

Idle peers have said hello and answer pings, from many addresses; active ones are consumers that beat each second (bench/cpp/load). Exit code 1
where the job loses more than a tenth of its rate, or anybody's session is lost.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from processes import Dispatcher, Server, load

import penstock
from penstock import Dataset

SLOWEST = 0.9  # of the rate without them


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--active", type=int, default=1000)
    parser.add_argument("--slow", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    with Dispatcher() as dispatcher, Server("worker", "--dispatcher", dispatcher.address, "--memory", "256MiB"):
        service = penstock.connect(dispatcher.address)
        alone = _rate(service, options.seconds)
        idle = load("idle", f"--address={dispatcher.address}", f"--idle={options.idle}", f"--slow={options.slow}")
        active = load("scale", f"--dispatcher={dispatcher.address}", "--workers=0", f"--consumers={options.active}", "--latecomers=0",
                      f"--seconds={options.seconds + 5}")  # fmt: skip
        with idle as idlers, active as consumers:
            next(idlers)  # all are connected
            next(consumers)
            used, begin = dispatcher.cpu_seconds(), time.monotonic()
            among_them = _rate(service, options.seconds)
            cores = (dispatcher.cpu_seconds() - used) / (time.monotonic() - begin)
            figures = json.loads(next(consumers))
        memory = dispatcher.resident_mib()
    ratio = among_them / alone
    print(f"{options.idle:,} idle, {options.active:,} active and {options.slow:,} dripping connections")
    print(f"  rows/s of a job without them {alone:14,.0f}, among them {among_them:14,.0f}: {ratio:.2f} of it")
    print(f"  heartbeats of the active, p99 {figures['heartbeats']['p99_ms']:.1f} ms; failures {figures['failures']} {figures['first_failure']}")
    print(f"  dispatcher: {cores:.2f} cores, {memory:.0f} MiB")
    return 0 if ratio > SLOWEST and figures["failures"] == 0 else 1


def _rate(service: penstock.Service, seconds: float) -> float:
    """Rows a second of a job that is bound by its reader."""
    with Dataset.from_range(10**9).shuffle(1000).batch(64).distribute(service) as reader:
        elements = iter(reader)
        next(elements)
        begin, rows = time.monotonic(), 0
        while time.monotonic() - begin < seconds:
            rows += len(next(elements))
        return rows / (time.monotonic() - begin)


if __name__ == "__main__":
    sys.exit(main())
