"""Runs every benchmark that has peers and writes what they measured as a page: docs/benchmarks.md, and a picture beside it.

python bench/report.py [--rounds 5] [--only records,transport] [--from FILE]; FILE: lines of an earlier run, which are only written up.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
BENCHES = {
    "records": "tf.Example records of 2.4 KB, batches of 512: inflate, check, parse, shuffle. Rows a CPU second.",
    "transport": "Elements that lie in readers' memory, handed to a loop on the same host.",
    "python": "The same Python function on two executors of penstock and two workers of DataLoader.",
    "start": "From the start of a Python program with its own service to its first batch. Less is better, and the ratio says how many times sooner.",
}
HEAD = """# Measured beside its peers
Each line is one run on one machine: penstock and the peer did the same work in turns, in processes of their own, and medians are compared. Machines
differ and are noisy; the ratio is what carries over. `make bench` measures it on yours and writes this page.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(BENCHES), help="benchmarks, by name")
    parser.add_argument("--from", dest="lines", type=Path)
    options = parser.parse_args()
    if options.lines:
        write(_read(options.lines), options.rounds)
        return
    with tempfile.TemporaryDirectory() as directory:
        lines = Path(directory) / "lines.jsonl"
        for bench in options.only.split(","):
            command = [sys.executable, str(HERE / f"{bench}.py"), "--rounds", str(options.rounds), "--json", str(lines)]
            subprocess.run(command, check=True)
        write(_read(lines), options.rounds)


def write(lines: list[dict[str, Any]], rounds: int) -> None:
    page = [HEAD, f"Measured with {rounds} rounds on {os.cpu_count()} cores ({_processor()}), Linux {platform.release()}.\n"]
    page.append("![ratios](benchmarks.svg)\n")
    for bench, measured in groupby(lines, key=lambda line: line["bench"]):
        page += [f"## {bench}", BENCHES[bench], "", *_table(list(measured)), ""]
    (DOCS / "benchmarks.md").write_text("\n".join(page))
    _draw(lines, DOCS / "benchmarks.svg")
    print(f"wrote {DOCS / 'benchmarks.md'}")


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _table(lines: list[dict[str, Any]]) -> list[str]:
    rows = ["| case | peer | penstock | peer's | unit | ratio | aim | spread of the middle half |", "|---|---|---:|---:|---|---:|---:|---|"]
    for line in lines:
        spread = f"{line['penstock_spread']:.0%}, {line['peer_spread']:.0%}"
        aim = f"{line['aim']:g}" if line["aim"] else ""
        rows.append(
            f"| {line['case']} | {line['peer_name']} | {line['penstock']:,.0f} | {line['peer']:,.0f} | {line['unit']} "
            f"| {line['ratio']:.2f} | {aim} | {spread} |"
        )
    return rows


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "penstock"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.3 * len(lines) + 1), layout="constrained")
    names = [f"{line['case']}: {line['peer_name']}" for line in lines]
    axes.barh(names, [line["ratio"] for line in lines], color="#4477aa")
    for place, line in enumerate(lines):
        if line["aim"]:
            axes.plot([line["aim"]] * 2, [place - 0.4, place + 0.4], color="#cc3311")
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("penstock / peer (red: what is aimed at)")
    figure.savefig(path, metadata={"Date": None})


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
