"""One dispatcher under 1,000 workers and 1,000 consumers, of ten jobs and of one, then under 100,000 jobs one after another: times of joins and
heartbeats, CPU, memory.

    scale.py [--workers 1000] [--consumers 1000] [--seconds 20] [--jobs 100000]      (--jobs 0: the crowds alone)

The peers are bench/cpp/load's (`ninja -C build/release penstock-load`): real sessions over TCP, and nothing behind them. Exit code 1 where a limit is
not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from typing import Any

from processes import Dispatcher, load

JOIN_P99_MS, HEARTBEAT_P99_MS, CORES, GROWTH = 100.0, 50.0, 1.0, 1.10


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--consumers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--jobs", type=int, default=100_000)
    options = parser.parse_args()
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}")
    kept = [*_crowd(options, 10), *_crowd(options, 1), *(_lifecycles(options) if options.jobs else [])]
    return 0 if all(kept) else 1


def _crowd(options: argparse.Namespace, jobs: int) -> list[bool]:
    flags = [f"--workers={options.workers}", f"--consumers={options.consumers}", f"--seconds={options.seconds}", "--latecomers=5", f"--jobs={jobs}"]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as state, Dispatcher("--state-dir", state) as dispatcher:
        with load("scale", f"--dispatcher={dispatcher.address}", *flags) as said:
            next(said)  # all are there
            used, begin = dispatcher.cpu_seconds(), dispatcher.now()
            figures: dict[str, Any] = json.loads(next(said))
            cores = (dispatcher.cpu_seconds() - used) / (dispatcher.now() - begin)
        memory = dispatcher.resident_mib()
    named = "one job" if jobs == 1 else f"{jobs} jobs"
    print(f"{options.workers:,} workers and {options.consumers:,} consumers of {named}, {figures['lanes_done']:,} lanes in {options.seconds:g} s")
    return [
        _figure("join, p99", figures["joins"]["p99_ms"], "ms", JOIN_P99_MS),
        _figure("heartbeat, p50", figures["heartbeats"]["p50_ms"], "ms"),
        _figure("heartbeat, p99", figures["heartbeats"]["p99_ms"], "ms", HEARTBEAT_P99_MS),
        _figure("cores of the dispatcher", cores, "", CORES),
        _figure("memory of the dispatcher", memory, "MiB"),
        _figure(f"failures {figures['first_failure']}", figures["failures"], "", 0.5),
    ]


def _lifecycles(options: argparse.Namespace) -> list[bool]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as state, Dispatcher("--state-dir", state) as dispatcher:
        begin, sizes, failures = dispatcher.now(), [], 0
        with load("lifecycles", f"--dispatcher={dispatcher.address}", f"--jobs={options.jobs}") as said:
            for line in said:
                sizes.append(dispatcher.resident_mib())
                failures = json.loads(line)["failures"]
        rate = options.jobs / (dispatcher.now() - begin)
    early = sizes[len(sizes) // 5]  # tombstones and datasets have come to their bounds
    print(f"{options.jobs:,} jobs, {rate:,.0f} a second; memory in MiB: {' '.join(f'{size:.0f}' for size in sizes)}")
    return [_figure("growth of memory after a fifth of them", sizes[-1] / early, "times", GROWTH), _figure("failures", failures, "", 0.5)]


def _figure(what: str, figure: float, unit: str, limit: float | None = None) -> bool:
    kept = limit is None or figure < limit
    print(f"  {what:45} {figure:10,.2f} {unit:6} {'' if limit is None else f'(under {limit:g}: ' + ('yes' if kept else 'NO') + ')'}", flush=True)
    return kept


if __name__ == "__main__":
    sys.exit(main())
