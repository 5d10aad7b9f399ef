"""Processes to measure, and what the kernel says of them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock import _binary

LOAD = Path(__file__).parent.parent / "build" / "release" / "bin" / "penstock-load"


class Server:
    """`penstock ROLE FLAGS`, for as long as the context lasts."""

    def __init__(self, role: str, *flags: str) -> None:
        ready, says_ready = os.pipe()
        command = [_binary.path(), role, *flags, "--ready-fd", str(says_ready)]
        environment = {**_binary.environment(), "PENSTOCK_LOG": "error"}
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[says_ready], env=environment)
        os.close(says_ready)
        with os.fdopen(ready) as said:
            self.address = said.readline().strip()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    @staticmethod
    def now() -> float:
        return time.monotonic()

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._process.pid)

    def resident_mib(self) -> float:
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Dispatcher(Server):
    def __init__(self, *flags: str) -> None:
        super().__init__("dispatcher", "--listen", "127.0.0.1:0", *flags)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """A process that says a line for each thing worth knowing."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise StopIteration
        return line

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._process.pid)


@contextmanager
def load(*arguments: str) -> Iterator[Load]:
    """penstock-load, ended by the end of its standard input."""
    process = subprocess.Popen([str(LOAD), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Load(process)
    finally:
        process.stdin.close()
        code = process.wait()
        process.stdout.close()
    if code != 0:
        raise SystemExit(f"penstock-load {' '.join(arguments)} ended with {code}")
