"""Runs every benchmark and writes what they measured as a page: docs/benchmarks.md, and pictures beside it.

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

from limits import what_limits

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
BENCHES = {
    "records": "tf.Example records of 2.4 KB, batches of 512: inflate, check, parse, shuffle. Rows a CPU second.",
    "torch_ranks": "The same records through a service with one worker to two torch ranks: rows a CPU second of all processes together.",
    "transport": "Elements that lie in readers' memory, handed to a loop on the same host.",
    "python": "The same Python function on two executors of penstock and two workers of DataLoader.",
    "eager": "An eager TensorFlow loop over a dataset that one reader prepares.",
    "start": "From the start of a Python program with its own service to its first batch. Less is better, and the ratio says how many times sooner.",
}
GROWTH = {
    "growth": "From joining to the first batch, as files and lanes become more, and what the processes held at most. Files come from a listing.",
    "ranks": "Ranks of one job whose pipeline is one lane with a shuffle buffer of 64 MiB: all of them together, and what the one reader held.",
}
HEAD = """# Measured beside its peers
Each line is one run on one machine: penstock and the peer did the same work in turns, in processes of their own, and medians are compared. Machines
differ and are noisy; the ratio is what carries over. `make bench` measures it on yours and writes this page.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join([*BENCHES, *GROWTH]), help="benchmarks, by name")
    parser.add_argument("--from", dest="lines", type=Path)
    options = parser.parse_args()
    if options.lines:
        write(_read(options.lines), options.rounds)
        return
    with tempfile.TemporaryDirectory() as directory:
        lines = Path(directory) / "lines.jsonl"
        for bench in options.only.split(","):
            rounds = ["--rounds", str(options.rounds)] if bench in BENCHES else []
            subprocess.run([sys.executable, str(HERE / f"{bench}.py"), *rounds, "--json", str(lines)], check=bench in BENCHES)
        write(_read(lines), options.rounds)


def write(lines: list[dict[str, Any]], rounds: int) -> None:
    machine = f"{os.cpu_count()} cores ({_processor()}), Linux {platform.release()}"
    page = [HEAD, f"Measured at commit {_commit()} with {rounds} rounds on {machine}.\n"]
    page.append("![ratios](benchmarks.svg)\n")
    for bench, measured in groupby(lines, key=lambda line: line["bench"]):
        if bench in BENCHES:
            rows = list(measured)
            page += [f"## {bench}", BENCHES[bench], "", *_table(rows), "", *what_limits(rows), ""]
        else:
            page += [f"## {bench}", GROWTH[bench], "", *_figures(list(measured)), ""]
    (DOCS / "benchmarks.md").write_text("\n".join(page))
    _draw([line for line in lines if line["bench"] in BENCHES], DOCS / "benchmarks.svg")
    _draw_growth([line for line in lines if line["bench"] == "growth"], DOCS / "growth.svg")
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


def _figures(lines: list[dict[str, Any]]) -> list[str]:
    names = [name for name in lines[0] if name != "bench"]
    rows = ["| " + " | ".join(names) + " |", "|---|" + "---:|" * (len(names) - 1)]
    rows += ["| " + " | ".join(f"{line[name]:,.2f}" if isinstance(line[name], float) else str(line[name]) for name in names) + " |" for line in lines]
    return [*rows, "", "![growth](growth.svg)"] if lines[0]["bench"] == "growth" else rows


def _draw_growth(lines: list[dict[str, Any]], path: Path) -> None:
    """Both axes are logarithmic: what grows linearly or slower is no steeper than the grey line."""
    if not lines:
        return
    pyplot = _pyplot()
    figure, (times, sizes) = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for kind, color in (("files", "#4477aa"), ("lanes", "#cc3311")):
        measured = [(int(line["case"].split()[0]), line) for line in lines if line["case"].endswith(kind)]
        counts = [count for count, _ in measured]
        times.loglog(counts, [line["seconds"] for _, line in measured], "o-", color=color, label=kind)
        sizes.loglog(counts, [line["worker"] for _, line in measured], "o-", color=color, label=f"worker, {kind}")
        sizes.loglog(counts, [line["dispatcher"] for _, line in measured], "o:", color=color, label=f"dispatcher, {kind}")
    times.loglog([1e4, 1e6], [0.02, 2], color="grey", linewidth=0.8, label="linear")
    times.set_ylabel("seconds to the first batch")
    sizes.set_ylabel("MB at most")
    for axes in (times, sizes):
        axes.set_xlabel("files, lanes")
        axes.legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot = _pyplot()
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


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "penstock"
    from matplotlib import pyplot

    return pyplot


def _commit() -> str:
    told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
