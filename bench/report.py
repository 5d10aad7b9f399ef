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
from itertools import groupby
from pathlib import Path
from typing import Any

from limits import what_limits
from side_by_side import BEYOND

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
BENCHES = {
    "records": "tf.Example records of 2.4 KB, batches of 512: inflate, check, parse, shuffle. Rows a CPU second. DataLoader's processes read by the "
    "package tfrecord, which checks no CRC, and inflates a gzip file once more to learn its length. Mosaic Streaming, which opens its file for each "
    "row, reads the same rows from its own format, uncompressed; it is of version 0.10, the newest that takes numpy 2.4.",
    "torch_ranks": "The same records through a service with one worker to two torch ranks: rows a CPU second of all processes together.",
    "transport": "Elements that lie in readers' memory, handed to a loop on the same host. Those of Ray Data are made by two tasks at a time, into "
    "its object store. Arrow Flight sends one element a message, to a loop in Python unless C++ is said. memcpy is a limit, not a peer: one core "
    "copies the element from and to the same place each time.",
    "python": "The same Python function on two executors of penstock and two workers of DataLoader. The one that computes takes 1.26 ms of CPU in "
    "plain Python, and 0.47 ms with the settings of malloc that executors get: part of its ratio is theirs.",
    "eager": "An eager TensorFlow loop over a dataset that one reader prepares.",
    "start": "From the start of a Python program with its own service to its first batch, with all that the program imports: the peer's time has "
    "`import tensorflow` in it, which is most of it. Less is better, and the ratio says how many times sooner.",
    "resume": "A position that is restored four batches before the end of a lane of 100,000 rows, in the process (`inline`): time to the first "
    "batch, and CPU time to the end. Less is better.",
}
GROWTH = {
    "growth": "From joining to the first batch, as files and lanes become more, and what the processes held at most (MB). Files come from a listing. "
    "For a million files less than 3 s and 500 MB are aimed at.",
    "ranks": "Ranks of one job whose pipeline is one lane with a shuffle buffer of 64 MiB: all of them together, the batches of the slowest rank as "
    "a part of the fastest's, and what the one reader held. 16 ranks are meant to hold at most 1.1 times what one holds.",
    "many_ranks": "One job of tiny batches (64 numbers) from two workers to ranks that are threads of one program: the CPU time that a batch takes, "
    "of all processes together, with their start and end. Batches are nearly all handing over, so this is what ranks cost. In `strict` a rank walks "
    "the ring of all ranks, so its cost grows with them; in `shared` it asks for lanes, however many others do.",
}
TOLD = {
    "scale": "One dispatcher under thousands of peers that say what workers and consumers say, and have nothing behind them.",
    "connections": "A job among thousands of connections to its dispatcher.",
    "overhead": "What the guarantees cost an undisturbed run: CPU seconds of all processes, in pairs of runs with and without. At most 1 % is meant.",
}
TITLE = "# Measured beside its peers"
HEAD = """
Each line is one run on one machine: penstock and the peer did the same work in turns, in processes of their own, and medians are compared. Machines
differ and are noisy; the ratio is what carries over. `make bench` measures it on yours and writes this page.

Where a column has two figures, penstock's is the first and the peer's the second: how far the middle half of the rounds spreads, as a part of the
median; CPU seconds of all processes for so many rows, elements or turns (the quick do more); what the processes held at most, together (memory that
they share counts in each).
"""
SUMMARY = [  # bench, peer, claim, caveat
    (
        "records",
        "tf.data",
        "More tf.Examples are read, parsed and batched for the same CPU time",
        "2.4 KB each, from files that are cached; in one process",
    ),
    (
        "transport",
        "tf.data service",
        "More elements a second reach a Python loop on the workers' host",
        "By shared memory; nothing is computed, and the smallest gain most",
    ),
    ("eager", "tf.data service", "So they do an eager TensorFlow loop, from an executor", "Elements of 64 KiB and 1 MiB from one reader"),
    (
        "python",
        "DataLoader",
        "Python functions run faster on executors than in DataLoader's processes",
        "Two processes each; where arrays are large, by the memory settings that executors get",
    ),
    ("start", "tf.data service", "A program with a service of its own has its first batch sooner", "The peer's time is mostly `import tensorflow`"),
]
PROMISES = "What the guarantees cost in CPU time, undisturbed"
PROMISES_CAVEAT = "At most 1 % is meant; how far single pairs spread is told below"
LINES = HERE.parent / "build/bench.jsonl"  # of the last run, for --from


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=30, help="of runs, for overhead")
    parser.add_argument("--only", default=",".join([*BENCHES, *GROWTH, *TOLD]), help="benchmarks, by name")
    parser.add_argument("--from", dest="lines", type=Path)
    options = parser.parse_args()
    if options.lines:
        write(_read(options.lines), options.rounds)
        return
    LINES.unlink(missing_ok=True)
    flags = {bench: ["--rounds", str(options.rounds)] for bench in BENCHES} | {"overhead": ["--pairs", str(options.pairs)]}
    for bench in options.only.split(","):
        _run([sys.executable, str(HERE / f"{bench}.py"), *flags.get(bench, [])], bench)
    write(_read(LINES), options.rounds)


def _run(command: list[str], bench: str) -> None:
    if bench not in TOLD:
        code = subprocess.run([*command, "--json", str(LINES)], check=False).returncode
        if code not in (0, BEYOND):
            raise SystemExit(f"{bench} ended with exit code {code}: nothing is written; mend it, or leave it out with --only")
        return
    said, data = [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            (data if line.startswith("{") else said).append(line)
    if running.returncode != 0:
        said.append(f"(it ended with exit code {running.returncode})\n")
    with LINES.open("a") as lines:
        lines.write(json.dumps({"bench": bench, "told": "".join(said)}) + "\n" + "".join(data))


def write(lines: list[dict[str, Any]], rounds: int) -> None:
    machine = f"{os.cpu_count()} cores ({_processor()}), Linux {platform.release()}"
    page = [TITLE, *_summary(lines), HEAD, f"Measured at commit {_commit()} with {rounds} rounds on {machine}.\n"]
    page.append("![ratios](benchmarks.svg)\n")
    for bench, measured in groupby(lines, key=lambda line: line["bench"]):
        if bench in BENCHES:
            page += [f"## {bench}", BENCHES[bench], "", *_table(list(measured)), ""]
        elif bench in GROWTH:
            page += [f"## {bench}", GROWTH[bench], "", *_figures(list(measured)), ""]
        else:
            page += [f"## {bench}", TOLD[bench], "```text", *(line["told"].rstrip() for line in measured if "told" in line), "```", ""]
    page += ["## What limits the lines below their aim", *what_limits(lines), ""]
    (DOCS / "benchmarks.md").write_text("\n".join(page))
    _draw([line for line in lines if line["bench"] in BENCHES], DOCS / "benchmarks.svg")
    _draw_growth([line for line in lines if line["bench"] == "growth"], DOCS / "growth.svg")
    print(f"wrote {DOCS / 'benchmarks.md'}")


def _summary(lines: list[dict[str, Any]]) -> list[str]:
    rows = []
    for bench, peer, claim, caveat in SUMMARY:
        ratios = [line["ratio"] for line in lines if line["bench"] == bench and line["peer_name"] == peer]
        if ratios:
            rows.append(f"| {claim} | {_range(min(ratios), max(ratios))} times {peer} | {caveat} |")
    costs = [line["median"] for line in lines if line["bench"] == "overhead" and line.get("case", "").startswith("guarantees")]
    if costs:
        rows.append(f"| {PROMISES} | {' and '.join(f'{cost:+.1%}' for cost in costs)} | {PROMISES_CAVEAT} |")
    return ["| claim | figure | but |", "|---|---|---|", *rows] if rows else []


def _range(least: float, most: float) -> str:
    texts = [f"{figure:.0f}" if figure >= 100 else f"{figure:.1f}" for figure in (least, most)]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _table(lines: list[dict[str, Any]]) -> list[str]:
    rows = ["| case | peer | penstock | peer's | unit | ratio | aim | spread | CPU s | MB |", "|---|---|---:|---:|---|---:|---:|---|---|---|"]
    for line in lines:
        spread = f"{line['penstock_spread']:.0%}, {line['peer_spread']:.0%}"
        cpu = ", ".join(f"{line[f'{who}_cpu_s']:.2f} for {line[f'{who}_work']:,.0f}" for who in ("penstock", "peer"))
        held = f"{line['penstock_rss'] / 1e6:,.0f}, {line['peer_rss'] / 1e6:,.0f}"
        aim = f"{line['aim']:g}" if line["aim"] else ""
        rows.append(
            f"| {line['case']} | {line['peer_name']} | {_number(line['penstock'])} | {_number(line['peer'])} | {line['unit']} "
            f"| {line['ratio']:.2f} | {aim} | {spread} | {cpu} | {held} |"
        )
    return rows


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.1f}"


def _figures(lines: list[dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for line in lines for name in line if name not in ("bench", "failed")))
    rows = ["| " + " | ".join(names) + " |", "|---|" + "---:|" * (len(names) - 1)]
    rows += ["| " + " | ".join(_cell(line.get(name, "-")) for name in names) + " |" for line in lines]
    failed = [f"- **{line['case']}, {line['ranks']} ranks** has no figures: {line['failed']}" for line in lines if "failed" in line]
    rows += ["", *failed] if failed else []
    return [*rows, "", "![growth](growth.svg)"] if lines[0]["bench"] == "growth" else rows


def _cell(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


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
