"""Single servers with flags and an environment of their own, for tests from outside."""

from __future__ import annotations

import ctypes
import os
import select
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock import _binary

DAC_OVERRIDE = 1
LOOK_INTO_PROCESSES = (19, 21, 38)  # CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON


def without(*capabilities: int) -> Callable[[], None]:
    """To be run in a new process, where tests run as root, who may do all."""
    drop_from_bounding_set = 24

    def drop() -> None:
        for capability in capabilities:
            ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)

    return drop


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

    def start(self, role: str, *flags: str, within: float = 20.0, before: Callable[[], None] | None = None, **environment: str) -> Server:
        """Returns when it serves; fails with what it said where it does not. `before` runs in the new process first."""
        ready, says_ready = os.pipe()
        log_file = self._directory / f"{role}-{len(self._started)}.log"
        command = [_binary.path(), role, *flags, "--ready-fd", str(says_ready)]
        with open(log_file, "wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[says_ready],
                preexec_fn=before,  # noqa: PLW1509  a test has no other threads that matter
                env={**_binary.environment(), **environment},
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
