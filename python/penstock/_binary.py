"""The `penstock` executable: servers are always it, also when Python starts them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from penstock.errors import NotFound


def path() -> str:
    """`PENSTOCK_BIN` if set, else the executable inside this package (the wheel and `make build` put it there)."""
    named = os.environ.get("PENSTOCK_BIN")
    binary = Path(named) if named else Path(__file__).parent / "bin" / "penstock"
    if not os.access(binary, os.X_OK):
        hint = "PENSTOCK_BIN names it" if named else "run `make build`, or install the wheel"
        raise NotFound(f"there is no executable at {binary}: {hint}")
    return str(binary)


def environment() -> dict[str, str]:
    """What the executable needs to know of this Python."""
    return {**os.environ, "PENSTOCK_PYTHON": sys.executable}


def main() -> None:
    """The console entry point: becomes the executable."""
    binary = path()
    os.execve(binary, [binary, *sys.argv[1:]], environment())
