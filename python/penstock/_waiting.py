"""What a program waits for, said once where it takes long: the log's warnings come out on stderr where the program has not set it up otherwise."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

SAY_AFTER = 5.0  # seconds

log = logging.getLogger("penstock")


@contextlib.contextmanager
def said(what: str, within: float) -> Iterator[None]:
    """Around a call that waits for `what`, up to `within` seconds, and lets other threads run meanwhile."""
    timer = threading.Timer(SAY_AFTER, log.warning, ("waiting for %s, for up to %.0f s in all", what, within))
    timer.daemon = True
    if within > SAY_AFTER:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
