"""How a job's start grows with its files and its lanes: from joining to the first batch, and what dispatcher, worker and program hold then.

    python bench/growth.py [--files 10 1000 100000 1000000] [--lanes 10 1000 100000] [--json FILE]

Files come from a listing, which names a hundred real ones over and over; lanes are files of 64 MiB, one real one over and over. Exit code 3 where a
million files take more than 3 s or 500 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["PENSTOCK_PROGRESS"] = "0"

import side_by_side

import penstock
from penstock import _processes
from penstock.tfrecord import write_tfrecord

LANE = 64 << 20
LIMIT_FILES, LIMIT_SECONDS, LIMIT_MB = 1_000_000, 3.0, 500.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="*", default=[10, 1000, 100_000, 1_000_000])
    parser.add_argument("--lanes", type=int, nargs="*", default=[10, 1000, 100_000])
    parser.add_argument("--json", type=Path, help="append a line for each figure to this file")
    options = parser.parse_args()
    print(f"{'':20} {'first batch':>12} {'dispatcher':>12} {'worker':>10} {'program':>10}")
    kept = True
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        small, large = _small_files(Path(directory)), _file_of_a_lane(Path(directory))
        for what, counts, real in (("files", options.files, small), ("lanes", options.lanes, [large])):
            for count in counts:
                figures = _measure(_listing(Path(directory), real, count))
                kept = _report(what, count, figures, options.json) and kept
    return 0 if kept else side_by_side.BEYOND


def _small_files(directory: Path) -> list[Path]:
    files = [directory / f"small-{i:02}.tfrecord" for i in range(100)]
    for number, file in enumerate(files):
        write_tfrecord(file, ({"id": 100 * number + i} for i in range(100)))
    return files


def _file_of_a_lane(directory: Path) -> Path:
    file = directory / "large.tfrecord"
    value = bytes(1 << 20)
    write_tfrecord(file, ({"id": i, "value": value} for i in range(LANE >> 20)))
    return file


def _listing(directory: Path, files: list[Path], count: int) -> Path:
    lines = []
    for file in files:
        seen = file.stat()
        lines.append(f"{file}\t{seen.st_size}\t{seen.st_mtime_ns // 10**9}.{seen.st_mtime_ns % 10**9:09}\n")
    listing = directory / "listing.tsv"
    whole, rest = divmod(count, len(lines))
    listing.write_text("".join(lines) * whole + "".join(lines[:rest]))
    return listing


def _measure(listing: Path) -> dict[str, float]:
    cluster = _processes.Cluster(1, log="warn")
    try:
        cluster.wait_until_ready()
        dataset = penstock.Dataset.from_tfrecord(listing=listing, compression="none").parse_example({"id": "int64"}).shuffle(100).batch(32)
        begin = time.perf_counter()
        with dataset.distribute(cluster.address) as reader:
            next(iter(reader))
            took = time.perf_counter() - begin
            servers = {"dispatcher": cluster.dispatcher.pid, "worker": cluster.workers[0].pid, "program": os.getpid()}
            return {"seconds": took, **{name: _peak_mb(pid) for name, pid in servers.items()}}
    finally:
        cluster.stop()


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 / 1e6 for line in status if line.startswith("VmHWM:"))


def _report(what: str, count: int, figures: dict[str, float], path: Path | None) -> bool:
    seconds, dispatcher, worker, program = (figures[name] for name in ("seconds", "dispatcher", "worker", "program"))
    print(f"{count:>14,} {what} {seconds * 1000:>9,.0f} ms {dispatcher:>9,.0f} MB {worker:>7,.0f} MB {program:>7,.0f} MB", flush=True)
    if path is not None:
        line: dict[str, Any] = {"bench": "growth", "case": f"{count} {what}", **figures}
        with path.open("a") as lines:
            lines.write(json.dumps(line) + "\n")
    return what != "files" or count != LIMIT_FILES or (seconds < LIMIT_SECONDS and max(dispatcher, worker) < LIMIT_MB)


if __name__ == "__main__":
    sys.exit(main())
