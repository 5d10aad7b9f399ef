"""A dispatcher and workers as child processes: what `penstock.local()`, the demo and the tests run."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from penstock import _binary
from penstock.errors import Deadline, Unavailable


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

    def wait_until_ready(self, within: float) -> None:
        """Returns when the dispatcher answers and knows all workers that run; an error says which part is not there."""
        end = time.monotonic() + within
        status = [_binary.path(), "status", "--json", "--dispatcher", self.address]
        while True:
            self._check_alive()
            asked = subprocess.run(status, capture_output=True, text=True, env=_binary.environment(), check=False)
            known = len(json.loads(asked.stdout)["workers"]) if asked.returncode == 0 else 0
            if asked.returncode == 0 and known >= len(self.workers):
                return
            if time.monotonic() > end:
                raise Deadline(f"after {within} s {known} of {len(self.workers)} workers are ready; their log ends: {self.log('worker')[-500:]}")

    def _check_alive(self) -> None:
        for role, process in [("dispatcher", self.dispatcher), *(("worker", worker) for worker in self.workers)]:
            if process.poll() is not None:
                raise Unavailable(f"the {role} ended with {process.returncode}; its log ends: {self.log(role)[-500:]}")

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
