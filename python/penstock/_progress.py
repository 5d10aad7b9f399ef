"""A tqdm bar over a reader: only on a terminal, only where tqdm is installed, never with PENSTOCK_PROGRESS=0."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any


def shown(elements: Iterator[Any], total: int | None, title: str) -> Iterator[Any]:
    if os.environ.get("PENSTOCK_PROGRESS") == "0" or not sys.stderr.isatty():
        return elements
    try:
        import tqdm
    except ImportError:
        return elements
    return iter(tqdm.tqdm(elements, total=total, desc=title, unit="el", leave=False))
