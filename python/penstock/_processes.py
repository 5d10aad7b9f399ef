"""A dispatcher and workers as child processes: what `penstock.local()`, the demo and the tests run."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from penstock import _binary


class Cluster:
    """Real processes, ended by `stop`. They talk over a Unix socket in a directory of their own, so no port is taken."""

    def __init__(self, workers: int, *, memory: str | None = None, directory: Path | None = None, token_file: Path | None = None) -> None:
        self._temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="penstock-"))
        self.address = f"unix:{self.directory / 'dispatcher.sock'}"
        self._memory = memory
        self._token = ["--token-file", str(token_file)] if token_file else []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.dispatcher = self.start_dispatcher()
        for _ in range(workers):
            self.start_worker()

    def start_dispatcher(self, *flags: str) -> subprocess.Popen[bytes]:
        """Starts it, or starts it again on the same state."""
        state = str(self.directory / "state")
        self.dispatcher = self._start("dispatcher", "--listen", self.address, "--state-dir", state, *self._token, *flags)
        return self.dispatcher

    def start_worker(self, *flags: str) -> subprocess.Popen[bytes]:
        memory = ["--memory", self._memory] if self._memory else []
        worker = self._start("worker", "--dispatcher", self.address, "--listen", "127.0.0.1:0", *self._token, *memory, *flags)
        self.workers.append(worker)
        return worker

    def log(self, name: str) -> str:
        """What a server wrote: "dispatcher", or "worker" (all of them)."""
        return (self.directory / f"{name}.log").read_text()

    def stop(self) -> None:
        """Ends all, at once; nothing is left. Idempotent."""
        _end([*self.workers, self.dispatcher])
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self, role: str, *flags: str) -> subprocess.Popen[bytes]:
        command = [_binary.path(), role, *flags]
        with open(self.directory / f"{role}.log", "ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_binary.environment())


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
    for process in processes:
        process.wait()
