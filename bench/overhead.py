"""What guarantees cost an undisturbed run: CPU seconds of trainer, workers and dispatcher together, in alternating pairs.

    make overhead [PAIRS=30]

- guarantees: as shipped, against a build without digests, delivery log, lease checks, hedging and synchronous commits (preset `unguarded`);
- checkpoints: `state_dict()` each second, against a run that saves nothing;
- order: `strict`, one consumer, against `shared`.
Fences and marks have no switch: grants are made of them. Instructions are counted where the machine lets a process count its own (hardware
counters); many virtual machines do not.
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
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import side_by_side

BATCH = 64
NUMBERS = 4_000_000
PASSES = 8  # over the files
EVERY = 1.0  # seconds between checkpoints
LIMIT = 0.01  # of the run without


@dataclass(frozen=True)
class Run:
    """One side of a pair."""

    rows: str  # records | numbers
    mode: str = "shared"
    checkpoints: bool = False
    guarded: bool = True


PAIRS = {
    "guarantees, records": (Run("records", guarded=False), Run("records")),
    "guarantees, small batches": (Run("numbers", guarded=False), Run("numbers")),
    "checkpoints": (Run("numbers"), Run("numbers", checkpoints=True)),
    "order": (Run("numbers"), Run("numbers", mode="strict")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--unguarded", type=Path, default=Path("build/unguarded/python"), help="the Python package of that build")
    parser.add_argument("--only", default="", help="comparisons whose name has this word")
    parser.add_argument("--run", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(_run(Run(**options.run), options.data)))
        return
    print(f"{options.pairs} pairs, 2 workers, {os.cpu_count()} cores")
    print(f"{'':28}{'figure':>14}{'without':>14}{'with':>14}{'median difference':>20}{'(quartiles)':>20}")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        _write_records(Path(directory))
        for name, (without, with_it) in PAIRS.items():
            if options.only in name:
                _compare(name, without, with_it, options, Path(directory))


def _write_records(directory: Path) -> None:
    import records

    records.prepare(directory)


def _run(run: Run, data: Path) -> dict[str, float]:
    import penstock

    instructions = _Instructions()
    with penstock.local(workers=2) as service:
        reader = _dataset(run.rows, data).distribute(service, job_name="overhead", processing_mode=run.mode, consumer_index=0, num_consumers=1)
        due = time.monotonic() + EVERY
        for _ in reader:
            if run.checkpoints and time.monotonic() >= due:
                reader.state_dict()
                due += EVERY
        reader.close()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    figures = {"cpu_s": sum(usage.ru_utime + usage.ru_stime for usage in used)}
    return {**figures, **({"instructions": instructions.count()} if instructions.known else {})}


def _dataset(rows: str, data: Path) -> Any:
    import records

    from penstock import Dataset

    if rows == "records":
        return records.penstock_dataset(str(data / "*.gz"), whole=True, passes=PASSES)
    return Dataset.from_range(NUMBERS).shuffle(1000).batch(BATCH)


def _compare(name: str, without: Run, with_it: Run, options: argparse.Namespace, data: Path) -> None:
    taken: dict[Run, list[dict[str, float]]] = {without: [], with_it: []}
    for pair in range(options.pairs):
        for run in (without, with_it) if pair % 2 == 0 else (with_it, without):
            taken[run].append(_child(run, options.unguarded, data))
    for figure in taken[without][0]:
        differences = sorted(b[figure] / a[figure] - 1 for a, b in zip(taken[without], taken[with_it]))
        _report(name, figure, _median(taken[without], figure), _median(taken[with_it], figure), differences)


def _child(run: Run, unguarded: Path, data: Path) -> dict[str, float]:
    environment = {**os.environ, **side_by_side.QUIET}
    if not run.guarded:
        environment["PYTHONPATH"] = str(unguarded.resolve())
    command = [sys.executable, __file__, "--data", str(data), "--run", json.dumps(vars(run))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _report(name: str, figure: str, without: float, with_it: float, differences: list[float]) -> None:
    median = statistics.median(differences)
    low, _, high = statistics.quantiles(differences, n=4) if len(differences) > 1 else (median, median, median)
    quartiles = f"({low:+.1%} to {high:+.1%})"
    print(f"{name:28}{figure:>14}{without:>14,.3f}{with_it:>14,.3f}{median:>+20.2%}{quartiles:>20}", flush=True)
    line = {"bench": "overhead", "case": name, "figure": figure, "without": without, "with": with_it, "median": median, "quartiles": [low, high]}
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
