"""What guarantees cost an undisturbed run: CPU seconds of trainer, workers and dispatcher together, in alternating pairs.

    python bench/overhead.py [--pairs 30] [--rows 4000000]

Fences, leases, marks and positions have no switch: every run pays for them. What can be left out is compared with what it is left out of:
- checkpoints: `state_dict()` each second, against a run that saves nothing;
- order: `strict`, one consumer, against `shared`.
Instructions are counted where the machine lets a process count its own (hardware counters); many virtual machines do not.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import statistics
import struct
import subprocess
import sys
import time

import penstock
from penstock import Dataset

BATCH = 64
EVERY = 1.0  # seconds between checkpoints
VARIANTS = {"shared": ("shared", False), "checkpoints": ("shared", True), "strict": ("strict", False)}
LIMIT = 0.01  # of the run without


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--run", choices=VARIANTS, help="one run, in this process; prints its figures")
    options = parser.parse_args()
    if options.run:
        print(json.dumps(_run(*VARIANTS[options.run], options.rows)))
        return
    print(f"{options.pairs} pairs, {options.rows:,} rows in batches of {BATCH}, 2 workers, {os.cpu_count()} cores, penstock {penstock.__version__}")
    print(f"{'against a plain shared run':28}{'figure':>14}{'without':>14}{'with':>14}{'median difference':>20}{'(quartiles)':>20}")
    for variant in ("checkpoints", "strict"):
        _compare(variant, options.pairs, options.rows)


def _run(mode: str, checkpoints: bool, rows: int) -> dict[str, float]:
    instructions = _Instructions()
    with penstock.local(workers=2) as service:
        dataset = Dataset.from_range(rows).shuffle(1000).batch(BATCH)
        reader = dataset.distribute(service, job_name="overhead", processing_mode=mode, consumer_index=0, num_consumers=1)
        due = time.monotonic() + EVERY
        for _ in reader:
            if checkpoints and time.monotonic() >= due:
                reader.state_dict()
                due += EVERY
        reader.close()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    figures = {"cpu_s": sum(usage.ru_utime + usage.ru_stime for usage in used)}
    return {**figures, **({"instructions": instructions.count()} if instructions.known else {})}


def _compare(variant: str, pairs: int, rows: int) -> None:
    without: list[dict[str, float]] = []
    with_it: list[dict[str, float]] = []
    for pair in range(pairs):
        order = [("shared", without), (variant, with_it)]
        for name, runs in order if pair % 2 == 0 else reversed(order):
            runs.append(_child(name, rows))
    for figure in without[0]:
        differences = sorted(b[figure] / a[figure] - 1 for a, b in zip(without, with_it))
        _report(variant, figure, _median(without, figure), _median(with_it, figure), differences)


def _child(variant: str, rows: int) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, "--run", variant, "--rows", str(rows)], capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _report(variant: str, figure: str, without: float, with_it: float, differences: list[float]) -> None:
    median = statistics.median(differences)
    low, _, high = statistics.quantiles(differences, n=4) if len(differences) > 1 else (median, median, median)
    quartiles = f"({low:+.1%} to {high:+.1%})"
    print(f"{variant:28}{figure:>14}{without:>14,.3f}{with_it:>14,.3f}{median:>+20.2%}{quartiles:>20}", flush=True)
    line = {"bench": "overhead", "case": variant, "figure": figure, "without": without, "with": with_it, "median": median, "quartiles": [low, high]}
    print(json.dumps({**line, "limit": LIMIT}))


def _median(runs: list[dict[str, float]], figure: str) -> float:
    return statistics.median(run[figure] for run in runs)


class _Instructions:
    """Counts the instructions of this process and of all that it starts, by perf_event_open."""

    _SYSCALL = 298  # x86-64
    _SIZE = 128
    _COUNT_INSTRUCTIONS = 1
    _INHERIT = 1 << 1

    def __init__(self) -> None:
        attributes = bytearray(self._SIZE)
        struct.pack_into("IIQ", attributes, 0, 0, self._SIZE, self._COUNT_INSTRUCTIONS)
        struct.pack_into("Q", attributes, 40, self._INHERIT)
        place = (ctypes.c_char * self._SIZE).from_buffer(attributes)
        self._descriptor = ctypes.CDLL(None).syscall(self._SYSCALL, place, 0, -1, -1, 0) if os.uname().machine == "x86_64" else -1

    @property
    def known(self) -> bool:
        return bool(self._descriptor >= 0)

    def count(self) -> float:
        return float(struct.unpack("Q", os.read(self._descriptor, 8))[0])


if __name__ == "__main__":
    main()
