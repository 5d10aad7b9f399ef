"""What the documentation shows, runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import _binary

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "design")]
SKIPPED = ("make ", "git clone", "pip install", "apt")  # what the other targets of the Makefile are there for


def _blocks() -> "list[object]":
    """Each ```python and ```bash block, named after its page and line. A block after `<!-- not run -->` is for reading only."""
    found = []
    for page in PAGES:
        text = page.read_text() if page.exists() else ""
        for match in re.finditer(r"(<!-- not run -->\n)?```(python|bash)\n(.*?)```", text, re.DOTALL):
            line = text[: match.start(2)].count("\n") + 1
            if not match[1]:
                found.append(pytest.param(match[2], match[3], id=f"{page.name}:{line}"))
    return found


@pytest.mark.parametrize(("language", "code"), _blocks())
def test_a_block_of_the_documentation_runs(language: str, code: str, tmp_path: Path) -> None:
    if language == "bash":
        code = "\n".join(line for line in code.splitlines() if not line.strip().startswith(SKIPPED))
    command = [sys.executable, "-c", code] if language == "python" else ["bash", "-euo", "pipefail", "-c", code]
    bin_directory = str(Path(_binary.path()).parent)
    environment = {**_binary.environment(), "PATH": f"{bin_directory}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
