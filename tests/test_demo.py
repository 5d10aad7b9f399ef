"""The demo is its own check."""

import subprocess
import sys


def test_the_demo_loses_and_repeats_nothing_and_leaves_nothing() -> None:
    done = subprocess.run([sys.executable, "-m", "penstock.demo"], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost 0, duplicated 0" in done.stdout
    assert "local --workers 3" in done.stdout.splitlines()[-1]
