"""Instructions that the hot loops take for a row, counted by callgrind, beside the recorded ones: what got slower shows on a noisy machine, too.

    make instructions [RECORD=1]

The counts are of the loops alone, without start-up and without the kernel. They depend on compiler and libraries, hardly on the machine: callgrind
shows programs a processor with AVX2. A loop that takes 3 % more than bench/instructions.json says fails the run (exit 3); `--record` writes the file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PROGRAM = HERE.parent / "build/release/bin/bench_hot_loops"
RECORDED = HERE / "instructions.json"
ROWS = 4096
MORE = 0.03  # that is still the same
LOOPS = {
    "parse": "tf.Examples in memory into columns",
    "records": "records of a plain file: read, lengths and CRCs checked",
    "records of gzip": "the same, inflated first",
    "batches": "a plain file to batches of 512: read, check, parse, block, batch",
    "batches, shuffled": "the same through a buffer of 1,000 rows",
    "batches of gzip": "a gzip file to batches of 512",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write what was counted to bench/instructions.json")
    options = parser.parse_args()
    recorded: dict[str, int] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    counted = {}
    print(f"{'loop':20} {'a row':>9} {'recorded':>9} {'change':>8}")
    for loop, words in LOOPS.items():
        counted[loop] = count(loop)
        print(f"{loop:20} {counted[loop]:9,} {recorded.get(loop, 0):9,} {_change(counted[loop], recorded.get(loop)):>8}  {words}", flush=True)
    if options.record:
        RECORDED.write_text(json.dumps(counted, indent=2) + "\n")
        return
    slower = [loop for loop, instructions in counted.items() if instructions > recorded.get(loop, 0) * (1 + MORE)]
    if slower:
        print(f"more instructions than recorded: {', '.join(slower)}", file=sys.stderr)
        print("if that is the price of something, record it: make instructions RECORD=1", file=sys.stderr)
        sys.exit(3)


def count(loop: str) -> int:
    with tempfile.TemporaryDirectory(prefix="penstock-instructions-") as directory:
        counter = ["valgrind", "--tool=callgrind", "--toggle-collect=Measured", f"--callgrind-out-file={directory}/profile"]
        command = [*counter, str(PROGRAM), loop, str(ROWS), directory]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise SystemExit(f"{loop}: {' '.join(command)}\n{done.stderr[-2000:]}")
    return int(found.group(1)) // ROWS


def _change(now: int, before: int | None) -> str:
    return "new" if before is None else f"{(now - before) / before:+.1%}"


if __name__ == "__main__":
    main()
