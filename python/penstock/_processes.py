"""Services of real processes on this machine: `Local` for programs, `Cluster`, part by part, for the demo and the tests."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from penstock import _binary, _core, _own_token
from penstock.errors import Deadline, Invalid, Unavailable

END_WITHIN = 5.0  # seconds for `penstock local` to end its servers; then it is killed, and they with it
_MISCONFIGURED = 2  # the exit code of `penstock` where it was told something that cannot be


class Local:
    """`penstock local` around a command that waits for the end of its input: when this process goes, however it goes, the service goes too.

    shown: whether other processes are told of it, and need its token in their environment.
    """

    def __init__(self, workers: int, memory: int | str | None, *, shown: bool) -> None:
        self._owner = os.getpid()
        binary = _binary.path()
        self._shown = shown and _own_token.shown.begin()
        self.token = _own_token.draw()  # "": the environment's
        flags = ["--parent", str(self._owner), "--workers", str(workers), *(["--memory", str(memory)] if memory else [])]
        wait = ["sh", "-c", 'echo "$PENSTOCK_SERVICE"; exec cat']
        self.process = subprocess.Popen(
            [binary, "local", *flags, "--", *wait],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**_binary.environment(), **({"PENSTOCK_TOKEN": self.token} if self.token else {})},
            start_new_session=True,  # Ctrl-C is for the program, which may still read what is on its way
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().decode().strip()
        if not self.address:
            self.stop()
            kind = Invalid if self.process.returncode == _MISCONFIGURED else Unavailable
            raise kind(f"`penstock local` ended with {self.process.returncode} before it was ready; what it said is above")

    def stop(self) -> None:
        """Ends the service; in a forked child, whose it is not, nothing."""
        if os.getpid() != self._owner:
            return
        if self._shown:
            self._shown = False
            _own_token.shown.end()
        _core.note_stopped(self.address.removeprefix("penstock://"))  # who still reads from it is told, and does not wait for it
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.terminate()  # a forked child may hold the other end of the input, too
        try:
            self.process.wait(END_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Cluster:
    """A dispatcher and workers that can be started and killed one by one. They meet at a Unix socket, so no port is taken."""

    def __init__(
        self,
        workers: int,
        *,
        memory: str | None = None,
        directory: Path | None = None,
        token_file: Path | None = None,
        log: str = "info",
        worker_flags: Sequence[str] = (),
    ) -> None:
        self._temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="penstock-"))
        self.address = f"unix:{self.directory / 'dispatcher.sock'}"
        self._worker_flags = [*(["--memory", memory] if memory else []), *worker_flags]
        self._token = ["--token-file", str(token_file)] if token_file else []
        self._environment = {**_binary.environment(), "PENSTOCK_LOG": log}
        self.workers: list[subprocess.Popen[bytes]] = []
        self._starting: list[tuple[str, subprocess.Popen[bytes], int]] = []  # and the descriptor on which it says that it is ready
        self.start_dispatcher()
        for _ in range(workers):
            self.start_worker()

    def start_dispatcher(self) -> None:
        """Starts it, or starts it again on the same state."""
        state = str(self.directory / "state")
        self.dispatcher = self._start("dispatcher", "--listen", self.address, "--state-dir", state)

    def start_worker(self) -> None:
        self.workers.append(self._start("worker", "--dispatcher", self.address, *self._worker_flags))

    def wait_until_ready(self, within: float = 30.0) -> None:
        """Returns when all that were started serve."""
        end = time.monotonic() + within
        while self._starting:
            role, process, ready = self._starting.pop()
            said = os.read(ready, 4096) if select.select([ready], [], [], max(0.0, end - time.monotonic()))[0] else None
            os.close(ready)
            if said is None:
                raise Deadline(f"the {role} (process {process.pid}) is not ready after {within} s; its log ends: {self.log(role)[-500:]}")
            if not said:
                raise Unavailable(f"the {role} ended with {process.wait()} before it was ready; its log ends: {self.log(role)[-500:]}")

    def log(self, role: str) -> str:
        """What the "dispatcher", or the "worker"s together, wrote."""
        return (self.directory / f"{role}.log").read_text()

    def stop(self) -> None:
        """Kills all. Idempotent."""
        for process in [*self.workers, self.dispatcher]:
            process.kill()
            process.wait()
        for *_, ready in self._starting:
            os.close(ready)
        self._starting = []
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self, role: str, *flags: str, through: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """through: a command that becomes the server, like `ip netns exec NAME`."""
        ready, says_ready = os.pipe()
        command = [*through, _binary.path(), role, *flags, *self._token, "--ready-fd", str(says_ready)]
        with open(self.directory / f"{role}.log", "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[says_ready], env=self._environment)
        os.close(says_ready)
        self._starting.append((role, process, ready))
        return process
