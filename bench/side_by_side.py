"""Penstock and its peers, side by side: the same work in processes of their own, in turns, in one run.

A benchmark is a file with a list of cases and a call of `main`. Each contestant of a case is a function that gets the directory with the data and
a stopwatch, does the work between the watch's start and stop, and returns how much it did. It runs in a process of its own, which is started
anew each round: nobody profits from what another has warmed up. Machines are noisy, so what counts is the ratio of medians of one run.

    python bench/records.py [--rounds 5] [--only WORD] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BEYOND = 3  # exit code of a benchmark that ran, and whose figures are beyond a limit
TICKS = os.sysconf("SC_CLK_TCK")
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "PENSTOCK_PROGRESS": "0",
    "PENSTOCK_LOG": "error",
    "OPENBLAS_NUM_THREADS": "1",  # numpy's import starts threads that spin for a while, on the account of whoever is measured
    "RAY_USAGE_STATS_ENABLED": "0",
}


class Stopwatch:
    """Wall time, CPU time of this process and all below it, and what those that live at the stop have held at most."""

    def __init__(self) -> None:
        self.seconds = self.cpu_s = self.rss = 0.0
        self._begun = (0.0, 0.0)

    def start(self) -> None:
        self._begun = (time.perf_counter(), _cpu_of_tree())

    def stop(self) -> None:
        begun_at, cpu_before = self._begun
        self.seconds = time.perf_counter() - begun_at
        self.cpu_s = _cpu_of_tree() - cpu_before
        self.rss = _peak_of_tree(os.getpid())


Contestant = Callable[[Path, Stopwatch], float]


@dataclass(frozen=True)
class Case:
    name: str
    unit: str
    penstock: Contestant
    peers: dict[str, Contestant]
    per: str = "seconds"  # or cpu_s
    lower_is_better: bool = False  # what the contestant returns is the figure: a time, or bytes
    at_least: dict[str, float] = field(default_factory=dict)  # by peer: the ratio that is aimed at
    needs: dict[str, str] = field(default_factory=dict)  # by peer: the module without which it is left out

    def contestants(self) -> dict[str, Contestant]:
        return {"penstock": self.penstock, **{name: peer for name, peer in self.peers.items() if self._there(name)}}

    def left_out(self) -> list[str]:
        return [name for name in self.peers if not self._there(name)]

    def _there(self, peer: str) -> bool:
        return peer not in self.needs or importlib.util.find_spec(self.needs[peer].partition(".")[0]) is not None


def main(bench: str, cases: Iterable[Case], prepare: Callable[[Path], None] = lambda directory: None) -> None:
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of which each contestant's median counts")
    parser.add_argument("--only", default="", help="cases whose name has this word")
    parser.add_argument("--json", type=Path, help="append a line for each figure to this file")
    parser.add_argument("--one", nargs=3, metavar=("CASE", "CONTESTANT", "DIRECTORY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        case = next(case for case in cases if case.name == options.one[0])
        print(json.dumps(_measure(case, case.contestants()[options.one[1]], Path(options.one[2]))))
        return
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        prepare(Path(directory))
        _head(bench, options.rounds)
        for case in cases:
            if options.only in case.name:
                _report(bench, case, _rounds(case, options.rounds, directory), options.json)


def _measure(case: Case, contestant: Contestant, directory: Path) -> dict[str, float]:
    watch = Stopwatch()
    amount = contestant(directory, watch)
    figure = amount if case.lower_is_better else amount / getattr(watch, case.per)
    work = 1 if case.lower_is_better else amount
    return {"figure": figure, "seconds": watch.seconds, "cpu_s": watch.cpu_s, "rss": watch.rss, "work": work}


def _rounds(case: Case, rounds: int, directory: str) -> dict[str, list[dict[str, float]]]:
    names = list(case.contestants())
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names if turn % 2 == 0 else reversed(names):
            taken[name].append(_child(case.name, name, directory))
    return taken


def _child(case: str, contestant: str, directory: str) -> dict[str, float]:
    command = [sys.executable, sys.argv[0], "--one", case, contestant, directory]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **QUIET}, timeout=900)
    if done.returncode != 0:
        raise SystemExit(f"{case}, {contestant}:\n{done.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _head(bench: str, rounds: int) -> None:
    print(f"{bench}: medians of {rounds} rounds in turns, {os.cpu_count()} cores")
    print(f"{'case':46} {'penstock':>14} {'peer':>14}  {'':24} {'ratio':>8}  {'aim':>6}  unit")


def _report(bench: str, case: Case, taken: dict[str, list[dict[str, float]]], path: Path | None) -> None:
    ours = _median(taken["penstock"], "figure")
    for name in case.peers:
        if name not in taken:
            print(f"{case.name:46} {'':14} {'':14}  {name:24} left out: it is not installed (make bench-setup)")
            continue
        theirs = _median(taken[name], "figure")
        ratio = theirs / ours if case.lower_is_better else ours / theirs
        aim = case.at_least.get(name)
        print(f"{case.name:46} {ours:14,.1f} {theirs:14,.1f}  {name:24} {ratio:8.2f}  {aim or '':>6}  {case.unit}", flush=True)
        if path is not None:
            _append(path, _line(bench, case, name, taken, ours, theirs, ratio))


def _line(bench: str, case: Case, peer: str, taken: dict[str, Any], ours: float, theirs: float, ratio: float) -> dict[str, Any]:
    figures = {"bench": bench, "case": case.name, "penstock": ours, "peer": theirs, "peer_name": peer, "ratio": ratio, "unit": case.unit}
    extent = {
        f"{who}_{what}": _median(taken[of], what) for who, of in (("penstock", "penstock"), ("peer", peer)) for what in ("work", "cpu_s", "rss")
    }
    spread = {f"{who}_spread": _spread(taken[of]) for who, of in (("penstock", "penstock"), ("peer", peer))}
    return {**figures, "aim": case.at_least.get(peer), **spread, **extent}


def _append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a") as lines:
        lines.write(json.dumps(line) + "\n")


def _median(samples: list[dict[str, float]], figure: str) -> float:
    return statistics.median(sample[figure] for sample in samples)


def _spread(samples: list[dict[str, float]]) -> float:
    """Of the middle half of the rounds, as a part of the median."""
    figures = sorted(sample["figure"] for sample in samples)
    quarter = len(figures) // 4
    return (figures[-1 - quarter] - figures[quarter]) / statistics.median(figures)


def _tree(root: int) -> list[int]:
    found = [root]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:  # it has ended meanwhile
                continue
    return found


def _cpu_of_tree() -> float:
    """Of children that live the kernel tells ticks alone, of this process all of it."""
    here = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ticks = 0
    for pid in _tree(os.getpid())[1:]:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(fields[i]) for i in (11, 12, 13, 14))  # its own, and of children that have ended
    return sum(used.ru_utime + used.ru_stime for used in here) + ticks / TICKS


def _peak_of_tree(root: int) -> float:
    peak = 0
    for pid in _tree(root):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        peak += sum(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))
    return peak
