"""`make chaos KILLS=N`: dispatcher, workers and ranks as processes, struck N times; exit code 3 if a row is lost or repeated, or a loop hangs."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from .run import Chaos

CHECK_FAILED = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=30, help="faults in all")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of what is done when; how the processes interleave is the machine's")
    parser.add_argument("--modes", default="shared,strict", help="the jobs' modes, in turn")
    parser.add_argument("--only", default="", metavar="WORDS", help="faults whose names contain this")
    parser.add_argument("--files", type=int, default=64, help="files of 1,500 rows that a history reads: how long it is")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(CHECK_FAILED))  # so that nothing is left running
    directory = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
    print(f"{options.kills} faults, seed {options.seed}, in {directory}", flush=True)
    report = Chaos(options.kills, options.seed, directory, options.modes.split(","), options.only, options.files).run()
    report.print()
    if report.wrong:
        print("\n".join(report.wrong), f"\nlogs and checkpoints are in {directory}")
        return CHECK_FAILED
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
