"""A short run of `make chaos`; the long ones are there to be left alone for minutes."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_a_dozen_faults_lose_and_repeat_nothing() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--kills", "12", "--seed", "5", "--files", "24"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost 0, duplicated 0" in done.stdout
