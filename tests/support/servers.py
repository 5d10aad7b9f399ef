"""Single servers with flags and an environment of their own, for tests from outside."""

from __future__ import annotations

import os
import select
import subprocess
from dataclasses import dataclass
from pathlib import Path

from penstock import _binary


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    address: str  # as it reported itself
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()


class Servers:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, role: str, *flags: str, within: float = 20.0, **environment: str) -> Server:
        """Returns when it serves; fails with what it said where it does not."""
        ready, says_ready = os.pipe()
        log_file = self._directory / f"{role}-{len(self._started)}.log"
        command = [_binary.path(), role, *flags, "--ready-fd", str(says_ready)]
        with open(log_file, "wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[says_ready], env={**_binary.environment(), **environment}
            )
        os.close(says_ready)
        self._started.append(process)
        said = os.read(ready, 4096) if select.select([ready], [], [], within)[0] else b""
        os.close(ready)
        assert said, f"{' '.join(command)} is not ready: {log_file.read_text()[-2000:]}"
        return Server(process, said.decode().strip(), log_file)

    def stop(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
