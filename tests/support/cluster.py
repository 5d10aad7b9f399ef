"""A cluster that tests may hurt."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import penstock
from penstock import _binary
from penstock._processes import Cluster


class TestCluster(Cluster):
    __test__ = False

    def __init__(
        self, directory: Path, workers: int, memory: str | None = None, token_file: Path | None = None, worker_flags: Sequence[str] = ()
    ) -> None:
        super().__init__(workers, memory=memory, directory=directory, token_file=token_file, log="debug", worker_flags=worker_flags)
        self.wait_until_ready()

    def connect(self, **options: Any) -> penstock.Service:
        return penstock.connect(self.address, **options)

    def kill_worker(self, i: int) -> None:
        """kill -9."""
        self.workers[i].kill()
        self.workers[i].wait()

    def kill_dispatcher(self) -> None:
        self.dispatcher.kill()
        self.dispatcher.wait()

    def drain_worker(self, i: int) -> None:
        self.workers[i].send_signal(signal.SIGTERM)

    def status(self) -> dict[str, Any]:
        done = run("status", "--dispatcher", self.address, "--json")
        assert done.returncode == 0, done.stderr
        status: dict[str, Any] = json.loads(done.stdout)
        return status

    def worker_status(self, i: int) -> dict[str, Any] | None:
        """The line of the i-th worker that was started; None while the dispatcher does not know it."""
        return next((worker for worker in self.status()["workers"] if worker["pid"] == self.workers[i].pid), None)

    def running(self) -> list[str]:
        """Command lines of processes that still have to do with this cluster."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"{self.directory}/" in command and "penstock" in command and "pytest" not in command:
                found.append(command)
        return found


def run(*arguments: str, timeout: float = 30.0, **options: Any) -> subprocess.CompletedProcess[str]:
    """The penstock executable, to its end."""
    return subprocess.run(
        [_binary.path(), *arguments], capture_output=True, text=True, timeout=timeout, env=_binary.environment(), check=False, **options
    )
