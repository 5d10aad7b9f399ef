"""One job of tiny batches and more and more ranks: the CPU time that a batch takes, of all processes together.

    python bench/many_ranks.py [--ranks 1 4 16 64 256] [--modes strict shared] [--json FILE]

Ranks are threads of one program, which read numbers in batches of 64 from two workers with even="uneven". Each figure is of a process of its own:
it counts the program with its threads, the workers, the dispatcher, and the start and end of all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import side_by_side

BATCH = 64
BATCHES = 100_000
WITHIN = 600.0  # seconds


@dataclass(frozen=True)
class Figures:
    cpu_us_a_batch: float
    batches_a_second: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 4, 16, 64, 256])
    parser.add_argument("--modes", nargs="+", choices=("strict", "shared"), default=("strict", "shared"))
    parser.add_argument("--batches", type=int, default=BATCHES, help="of the job: all ranks together")
    parser.add_argument("--json", type=Path, help="append a line for each figure to this file")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # the first mode and number of ranks, in this process
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asdict(_measure(options.modes[0], options.ranks[0], options.batches))))
        return
    print(f"{'':24}{'CPU us a batch':>16}{'of 1 rank':>12}{'batches/s':>12}")
    for mode in options.modes:
        alone = None
        for ranks in options.ranks:
            figures = _child(mode, ranks, options.batches)
            alone = alone or figures.cpu_us_a_batch
            case = f"{mode}, {ranks} rank{'s' if ranks > 1 else ''}"
            times = figures.cpu_us_a_batch / alone
            print(f"{case:24}{figures.cpu_us_a_batch:>16.1f}{times:>11.2f}x{figures.batches_a_second:>12,.0f}", flush=True)
            if options.json:
                with options.json.open("a") as lines:
                    lines.write(json.dumps({"bench": "many_ranks", "case": case, **asdict(figures)}) + "\n")


def _child(mode: str, ranks: int, batches: int) -> Figures:
    command = [sys.executable, __file__, "--one", "--modes", mode, "--ranks", str(ranks), "--batches", str(batches)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **side_by_side.QUIET}, timeout=WITHIN)
    if done.returncode != 0:
        raise SystemExit(f"{mode}, {ranks} ranks:\n{done.stderr[-3000:]}")
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def _measure(mode: str, ranks: int, batches: int) -> Figures:
    import penstock

    counts = [0] * ranks
    failures: list[Exception] = []
    with penstock.local(workers=2) as service:

        def read(rank: int) -> None:
            dataset = penstock.Dataset.from_range(batches * BATCH).shuffle(1000).batch(BATCH)
            place = {"job_name": "many", "consumer_index": rank, "num_consumers": ranks}
            try:
                with dataset.distribute(service, processing_mode=mode, even="uneven", **place) as reader:
                    for _ in reader:
                        counts[rank] += 1
            except Exception as error:  # of a thread: it is the program's
                failures.append(error)

        threads = [threading.Thread(target=read, args=(rank,)) for rank in range(ranks)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - begin
    if failures:
        raise failures[0]
    assert sum(counts) >= batches, f"{sum(counts)} batches came of {batches}"
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(usage.ru_utime + usage.ru_stime for usage in used)
    return Figures(cpu / sum(counts) * 1e6, sum(counts) / seconds)


if __name__ == "__main__":
    main()
